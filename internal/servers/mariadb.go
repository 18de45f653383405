package servers

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
)

var mariadb = maker{
	kind:     MariaDB,
	programs: []string{"mariadbd", "mariadb-install-db"},
	user:     "curfew",
	database: "curfew",
	stop:     syscall.SIGTERM,

	template: func(dir string, programs map[string]string) error {
		return run(dir, programs["mariadb-install-db"], "--no-defaults", "--datadir="+dir+"/data",
			"--auth-root-authentication-method=socket", "--skip-test-db", "--innodb-log-file-size=8M")
	},

	command: func(s *Server, programs map[string]string) ([]string, error) {
		// Read at every start, before the first connection is taken.
		first, err := s.write("first.sql", strings.Join([]string{
			"CREATE DATABASE IF NOT EXISTS " + s.Database + ";",
			"CREATE USER IF NOT EXISTS '" + s.User + "'@'%' IDENTIFIED BY '" + s.Password + "';",
			"GRANT ALL ON *.* TO '" + s.User + "'@'%' WITH GRANT OPTION;",
		}, "\n")+"\n")
		if err != nil {
			return nil, err
		}
		args := []string{
			programs["mariadbd"],
			"--no-defaults", // must come first
			"--datadir=" + s.dataDir(),
			"--init-file=" + first,
			"--bind-address=" + s.Host,
			"--port=" + strconv.Itoa(s.Port),
			"--socket=mariadb.sock", // in the data folder
			"--pid-file=mariadb.pid",
			"--skip-name-resolve",
			"--innodb-log-file-size=8M",
			"--innodb-buffer-pool-size=32M",
			"--innodb-flush-log-at-trx-commit=2", // commits reach the operating system, so they survive Kill
			"--performance-schema=OFF",
		}
		for _, setting := range s.settings {
			args = append(args, "--"+setting)
		}
		return args, nil
	},

	ping: pingMariaDB,
}

// pingMariaDB reads the greeting that a server sends first.
//
// Source: MariaDB documentation, "Connecting: Initial Handshake Packet".
func pingMariaDB(_ *Server, conn net.Conn) error {
	var head [5]byte // three bytes of length, a sequence number, the protocol version
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return err
	}
	if head[4] != 10 {
		return fmt.Errorf("it greeted with protocol version %d, not 10", head[4])
	}
	return nil
}
