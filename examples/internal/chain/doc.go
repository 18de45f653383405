// Package chain holds the test of a whole chain: clients, a gateway, a service and a PostgreSQL, each
// behind real sockets. It stands among the examples because it uses the adapters together, as a program
// does, and no adapter's own module may know another one.
package chain
