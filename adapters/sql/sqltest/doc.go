// Package sqltest is the list that decides whether a dialect of curfewsql is done. It
// runs against a real database through a real driver:
//
//	func TestOracle(t *testing.T) {
//		sqltest.Run(t, sqltest.Config{Connector: connector, Slow: "begin dbms_session.sleep(60); end;", ...})
//	}
//
// What the list checks is the same for all: who ends a statement, what is left of it, what the
// pool holds afterwards, and that a wrapped database answers as a bare one does.
package sqltest
