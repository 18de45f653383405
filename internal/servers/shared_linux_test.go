package servers

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

func TestASharedServerIsOneForAllWhoAskForTheSame(t *testing.T) {
	var first, other *Server
	t.Run("first", func(t *testing.T) { first = Shared(t, PostgreSQL) })
	if first == nil {
		t.Skip("not installed")
	}
	t.Run("again", func(t *testing.T) {
		if Shared(t, PostgreSQL) != first {
			t.Error("another server")
		}
		mustAnswer(t, first)
	})
	t.Run("other settings", func(t *testing.T) { other = Shared(t, PostgreSQL, "jit=off") })
	if other == first || other.Port == first.Port {
		t.Error("not another server")
	}
	in := first.InDatabase("d")
	if want := first.Database; in.Database != "d" || first.Database != want || in.Addr() != first.Addr() || in.Password != first.Password {
		t.Errorf("%s is not %s with another database", in.DSN(), first.DSN())
	}
	for name, f := range map[string]func(*Server){
		"Freeze": (*Server).Freeze, "Thaw": (*Server).Thaw, "Stop": (*Server).Stop, "Kill": (*Server).Kill, "Restart": (*Server).Restart,
	} {
		for _, s := range []*Server{first, in} {
			func() {
				defer func() {
					if recover() != "servers: "+name+" of a PostgreSQL that tests share" {
						t.Errorf("%s did not refuse", name)
					}
				}()
				f(s)
			}()
		}
	}
	mustAnswer(t, first)
}
