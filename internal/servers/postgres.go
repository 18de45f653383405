package servers

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

var postgres = maker{
	kind:     PostgreSQL,
	programs: []string{"postgres", "initdb"},
	user:     "curfew",
	database: "postgres",
	stop:     syscall.SIGINT, // fast: disconnects clients, rolls back, ends

	template: func(dir string, programs map[string]string) error {
		secret := filepath.Join(dir, "password")
		verifier, err := scramVerifier(password())
		if err != nil {
			return err
		}
		if err := os.WriteFile(secret, []byte(verifier), 0o600); err != nil {
			return err
		}
		if err := giveAway(secret); err != nil {
			return err
		}
		return run(dir, programs["initdb"], "--pgdata=data", "--username=curfew", "--pwfile="+secret,
			"--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", "--no-sync", "--no-instructions")
	},

	command: func(s *Server, programs map[string]string) ([]string, error) {
		args := []string{programs["postgres"], "-D", s.dataDir(), "-p", strconv.Itoa(s.Port)}
		for _, setting := range append([]string{
			"listen_addresses=" + s.Host,
			"unix_socket_directories=",
			"fsync=off", // commits still reach the operating system, so they survive Kill
			"full_page_writes=off",
			"shared_buffers=16MB",
			"max_connections=100",
			"dynamic_shared_memory_type=mmap", // in the data folder: nothing is left behind in /dev/shm
			"log_line_prefix=%m [%p] ",
		}, s.settings...) {
			args = append(args, "-c", setting)
		}
		return args, nil
	},

	ping:  pingPostgres,
	sweep: removeSharedMemory,
}

// pingPostgres starts a session as far as the server's first answer. One that
// asks for a password shows that it serves; while starting up or shutting down
// it answers with an error.
//
// Source: PostgreSQL documentation, "Message Formats", StartupMessage.
func pingPostgres(s *Server, conn net.Conn) error {
	body := binary.BigEndian.AppendUint32(nil, 3<<16) // protocol 3.0
	body = fmt.Appendf(body, "user\x00%s\x00database\x00%s\x00\x00", s.User, s.Database)
	message := binary.BigEndian.AppendUint32(nil, uint32(4+len(body)))
	if _, err := conn.Write(append(message, body...)); err != nil {
		return err
	}
	var head [5]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return err
	}
	switch head[0] {
	case 'R':
		return nil
	case 'E':
		text := make([]byte, min(max(binary.BigEndian.Uint32(head[1:]), 4)-4, 1<<12))
		_, err := io.ReadFull(conn, text)
		return errors.Join(fmt.Errorf("it answered: %s", strings.ReplaceAll(string(text), "\x00", " ")), err)
	}
	return fmt.Errorf("it answered with message type %q", head[0])
}

// scramVerifier returns what a server keeps of a password, which it takes in the place of one. It has one
// iteration where there are 4096 as a rule: these are most of a login's time under the
// race detector, and a test's server has nothing to keep from anybody.
//
// Source: PostgreSQL documentation, pg_authid; RFC 5802, section 3.
func scramVerifier(password string) (string, error) {
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // never fails
	salted, err := pbkdf2.Key(sha256.New, password, salt, 1, sha256.Size)
	if err != nil {
		return "", err
	}
	sign := func(text string) []byte {
		h := hmac.New(sha256.New, salted)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	stored := sha256.Sum256(sign("Client Key"))
	b64 := base64.StdEncoding.EncodeToString
	return "SCRAM-SHA-256$1:" + b64(salt) + "$" + b64(stored[:]) + ":" + b64(sign("Server Key")), nil
}
