package servers

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
)

// PgBouncer takes PostgreSQL's ping: it asks for the password itself.
var pgbouncer = maker{
	kind:     PgBouncer,
	programs: []string{"pgbouncer"},
	user:     "curfew",
	database: "postgres",
	stop:     syscall.SIGQUIT, // at once; what SIGTERM waits for differs between versions

	command: func(s *Server, programs map[string]string) ([]string, error) {
		users, err := s.write("users.txt", fmt.Sprintf("%q %q\n", s.User, s.Password))
		if err != nil {
			return nil, err
		}
		lines := append([]string{
			"[databases]",
			fmt.Sprintf("* = host=%s port=%d", s.upstream.Host, s.upstream.Port),
			"[pgbouncer]",
			"listen_addr = " + s.Host,
			"listen_port = " + strconv.Itoa(s.Port),
			"unix_socket_dir =",
			"auth_type = scram-sha-256",
			"auth_file = " + users,
			"admin_users = " + s.User,
			"pool_mode = transaction",
		}, s.settings...)
		config, err := s.write("pgbouncer.ini", strings.Join(lines, "\n")+"\n")
		return []string{programs["pgbouncer"], config}, err
	},

	ping: pingPostgres,
}
