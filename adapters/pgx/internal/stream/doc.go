// Package stream sits between a PostgreSQL driver and its connection, above
// TLS, and sends the statement limit along with the statement it limits.
//
// A burst is what the driver writes from the moment the server is idle until it
// waits for the answer. A Conn that is armed puts messages of its own in front
// of the burst, in the same write, and takes their answers out of what the
// driver reads. So the limit costs no turn, and the driver never knows:
//
//	driver    Bind Execute Sync                   2 D C Z
//	server    [Bind Execute] Bind Execute Sync    [2 D C] 2 D C Z
//
// Messages and their order are those of the protocol's chapter "Message Flow"
// in PostgreSQL's documentation, version 3.0.
package stream
