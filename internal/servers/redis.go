package servers

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
)

var redis = maker{
	kind:     Redis,
	programs: []string{"redis-server"},
	stop:     syscall.SIGTERM,

	command: func(s *Server, programs map[string]string) ([]string, error) {
		lines := []string{
			"bind " + s.Host,
			"port " + strconv.Itoa(s.Port),
			"dir " + s.dir,
			"requirepass " + s.Password,
			`save ""`,
			"appendfsync no",
		}
		for _, setting := range s.settings {
			lines = append(lines, strings.Replace(setting, "=", " ", 1))
		}
		config, err := s.write("redis.conf", strings.Join(lines, "\n")+"\n")
		return []string{programs["redis-server"], config}, err
	},

	ping: pingRedis,
}

// pingRedis asks for PONG, which a server that still loads its data refuses.
func pingRedis(s *Server, conn net.Conn) error {
	if _, err := fmt.Fprintf(conn, "AUTH %s\r\nPING\r\n", s.Password); err != nil {
		return err
	}
	answers := bufio.NewReader(conn)
	for _, want := range []string{"+OK", "+PONG"} {
		line, err := answers.ReadString('\n')
		if err != nil {
			return err
		}
		if strings.TrimSpace(line) != want {
			return fmt.Errorf("it answered %q", strings.TrimSpace(line))
		}
	}
	return nil
}
