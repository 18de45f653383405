package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/internal/servers"
	"github.com/curfew-go/curfew/internal/stress"
)

// TestMain makes this program the service when it is started as one.
func TestMain(m *testing.M) {
	if text := os.Getenv(serviceEnv); text != "" {
		if err := beService(context.Background(), text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// eachDatabase runs f with SQLite and with PostgreSQL.
func eachDatabase(t *testing.T, f func(t *testing.T, s *shop)) {
	t.Run("SQLite", func(t *testing.T) { f(t, newShop(t, "")) })
	t.Run("PostgreSQL", func(t *testing.T) { f(t, newShop(t, servers.Start(t, servers.PostgreSQL).DSN())) })
}

const orders = 450 // five pages

// A shop is one for tests, with a service that lives as often as they like.
type shop struct {
	*client
	order
	process *process
}

func newShop(t *testing.T, dsn string) *shop {
	t.Helper()
	o, remove, err := prepare(t.Context(), dsn, orders)
	require.NoError(t, err)
	o.Every = 10 * time.Millisecond
	s := &shop{client: newClient(), order: o}
	t.Cleanup(func() {
		s.kill()
		assert.NoError(t, remove())
	})
	return s
}

// begin starts a service that stands still at a step.
func (s *shop) begin(t *testing.T, hold string) {
	t.Helper()
	s.Hold = hold
	p, err := s.start(context.Background())
	require.NoError(t, err)
	s.process, s.url = p, p.url
}

func (s *shop) kill() {
	if s.process != nil {
		s.process.kill()
		s.process = nil
	}
}

// killAtHold waits until the service stands still, and kills it.
func (s *shop) killAtHold(t *testing.T) {
	t.Helper()
	at, err := s.process.line()
	require.NoError(t, err)
	require.Equal(t, s.Hold, at)
	s.kill()
}

func (s *shop) newJob(t *testing.T) (id string) {
	t.Helper()
	id, err := s.create(t.Context())
	require.NoError(t, err)
	return id
}

func (s *shop) cancel(t *testing.T, id string) (code int) {
	t.Helper()
	code, _, err := s.ask(t.Context(), http.MethodDelete, "/exports/"+id)
	require.NoError(t, err)
	return code
}

// ends waits for the job's end, stops the service in order, and checks what is there then.
func (s *shop) ends(t *testing.T, id, state string) {
	t.Helper()
	at, err := s.until(t.Context(), id, over)
	require.NoError(t, err)
	require.Equal(t, state, at.State, at.Why)
	if state == done {
		n, err := s.rows(t.Context(), at)
		require.NoError(t, err)
		assert.Equal(t, orders, n)
		assert.Equal(t, http.StatusConflict, s.cancel(t, id))
	} else {
		assert.NoFileExists(t, files{s.Dir}.whole(id))
	}
	require.NoError(t, s.process.stop())
	s.process = nil
	left, err := files{s.Dir}.list()
	require.NoError(t, err)
	assert.Empty(t, left)
	want := 0
	if state == done {
		want = 1
	}
	assert.Equal(t, want, s.count(t, "SELECT count(*) FROM notice WHERE job = $1", id), "notices")
}

func (s *shop) count(t *testing.T, query string, args ...any) (n int) {
	t.Helper()
	db, err := s.Place.Open(t.Context())
	require.NoError(t, err)
	defer db.Close()
	require.NoError(t, db.QueryRowContext(t.Context(), query, args...).Scan(&n))
	return n
}

func TestAJobThatIsKilledInAnyStepIsDoneOnceAndLeavesNoTemporaryFile(t *testing.T) {
	eachDatabase(t, func(t *testing.T, s *shop) {
		steps := []string{
			"collect: written", "collect: noted", "pack: block", "pack: done",
			"publish: begun", "publish: moved", "publish: removed", "publish: told",
		}
		if s.Place.DSN != "" { // one of each phase: what differs is the database, not the files
			steps = []string{"collect: noted", "pack: block", "publish: moved", "publish: told"}
		}
		for _, step := range steps {
			t.Run(step, func(t *testing.T) {
				s.begin(t, step)
				id := s.newJob(t)
				s.killAtHold(t)
				s.begin(t, "")
				s.ends(t, id, done)
			})
		}
	})
}

func TestACancelBeforeARestartHoldsAfterIt(t *testing.T) {
	eachDatabase(t, func(t *testing.T, s *shop) {
		for _, step := range []string{"collect: written", "collect: noted", "pack: block", "pack: done"} {
			t.Run(step, func(t *testing.T) {
				s.begin(t, step)
				id := s.newJob(t)
				at, err := s.process.line()
				require.NoError(t, err)
				require.Equal(t, step, at)
				require.Equal(t, http.StatusAccepted, s.cancel(t, id))
				s.kill()
				left, err := files{s.Dir}.list()
				require.NoError(t, err)
				require.NotEmpty(t, left)
				s.begin(t, "")
				s.ends(t, id, cancelled)
			})
		}
	})
}

func TestACancelledJobThatIsKilledBeforeItSaysSoIsCancelled(t *testing.T) {
	s := newShop(t, "")
	s.Pace = time.Second
	s.begin(t, "end")
	id := s.newJob(t)
	require.Equal(t, http.StatusAccepted, s.cancel(t, id))
	s.killAtHold(t)
	s.begin(t, "")
	s.ends(t, id, cancelled)
}

func TestACancelIsTooLateForAJobThatIsPublished(t *testing.T) {
	s := newShop(t, "")
	s.begin(t, "publish: begun")
	id := s.newJob(t)
	_, err := s.process.line()
	require.NoError(t, err)
	assert.Equal(t, http.StatusConflict, s.cancel(t, id))
	s.kill()
	s.begin(t, "")
	s.ends(t, id, done)
}

func TestAJobStopsSoonAfterItsCancel(t *testing.T) {
	eachDatabase(t, func(t *testing.T, s *shop) {
		s.Pace = time.Minute // it would take until the test is over
		s.begin(t, "")
		id := s.newJob(t)
		_, err := s.until(t.Context(), id, func(at status) bool { return at.Rows > 0 })
		require.NoError(t, err)
		require.Equal(t, http.StatusAccepted, s.cancel(t, id))
		s.ends(t, id, cancelled)
	})
}

func TestAServiceThatStopsInOrderKeepsWhatItsJobsHave(t *testing.T) {
	s := newShop(t, "")
	s.Pace = time.Minute
	s.begin(t, "")
	id := s.newJob(t)
	_, err := s.until(t.Context(), id, func(at status) bool { return at.Rows > 0 })
	require.NoError(t, err)
	require.NoError(t, s.process.stop())
	s.process = nil
	left, err := files{s.Dir}.list()
	require.NoError(t, err)
	assert.Len(t, left, 1)
	require.Equal(t, pageRows, s.count(t, "SELECT last_id FROM job WHERE id = $1", id))
	s.Pace = 0
	s.begin(t, "")
	s.ends(t, id, done)
}

func TestAJobIsDoneAlthoughItsServiceIsKilledAtAnyInstant(t *testing.T) {
	s := newShop(t, "")
	s.Pace = 10 * time.Millisecond
	for range stress.Rounds(2) {
		s.begin(t, "")
		id := s.newJob(t)
		for range 4 {
			_, err := s.until(t.Context(), id, func(status) bool { return true })
			require.NoError(t, err)
			time.Sleep(rand.N(60 * time.Millisecond)) // an instant of chance: there is nothing to wait for
			s.kill()
			s.begin(t, "")
		}
		s.ends(t, id, done)
	}
}

func TestAFailedJobSaysWhyAndLeavesNoTemporaryFile(t *testing.T) {
	s := newShop(t, "")
	db, err := s.Place.Open(t.Context())
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), "ALTER TABLE orders RENAME TO lost")
	require.NoError(t, err)
	require.NoError(t, db.Close())
	s.begin(t, "")
	require.NoError(t, os.WriteFile(files{s.Dir}.part("nobodys"), nil, 0o600))
	id := s.newJob(t)
	at, err := s.until(t.Context(), id, over)
	require.NoError(t, err)
	assert.Equal(t, failed, at.State)
	assert.Contains(t, at.Why, "orders")
	left, err := files{s.Dir}.list()
	require.NoError(t, err)
	assert.Equal(t, []string{"nobodys.csv"}, left)
	s.kill()
	s.begin(t, "") // which sweeps
	s.ends(t, id, failed)
}

func TestAJobThatIsNotThereIsNotFound(t *testing.T) {
	s := newShop(t, "")
	s.begin(t, "")
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		code, _, err := s.ask(t.Context(), method, "/exports/none")
		require.NoError(t, err)
		assert.Equal(t, http.StatusNotFound, code)
	}
}

func TestTheProgramTellsItsStoryAndLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var out strings.Builder
	require.NoError(t, run(t.Context(), []string{"-orders", "1000"}, &out), out.String())
	for _, want := range []string{"(202) in phase collect", "the second is cancelled", "too late (409)", "1000 of 1000 orders", "in order; 0 temporary files"} {
		assert.Contains(t, out.String(), want)
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "*"))
	require.NoError(t, err)
	assert.Empty(t, left)
	for args, want := range map[string]string{"-orders 0": "-orders 0", "-pace 2s": "-pace 2s", "more": `"more"`} {
		assert.ErrorContains(t, run(t.Context(), strings.Fields(args), &out), want)
	}
}
