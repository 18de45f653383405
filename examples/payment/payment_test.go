package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewsql "github.com/curfew-go/curfew/adapters/sql"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/examples/internal/database"
	"github.com/curfew-go/curfew/internal/servers"
	"github.com/curfew-go/curfew/internal/stress"
)

// eachDatabase runs f with SQLite and with PostgreSQL, whose URL dsn is.
func eachDatabase(t *testing.T, f func(t *testing.T, dsn string)) {
	t.Run("SQLite", func(t *testing.T) { f(t, "") })
	t.Run("PostgreSQL", func(t *testing.T) { f(t, servers.Start(t, servers.PostgreSQL).DSN()) })
}

// open makes a ledger whose commits have their trouble once it is set.
func open(t *testing.T, dsn string) (ledger, *trouble) {
	t.Helper()
	trouble := newTrouble(20*time.Millisecond, 1)
	db, err := database.Place{
		DSN: dsn, Schema: "test_" + strings.ToLower(rand.Text()), File: filepath.Join(t.TempDir(), "payments.db"),
		Dial: trouble.dial, Through: trouble.through,
	}.Open(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(connections)
	l := ledger{db}
	require.NoError(t, l.setUp(t.Context()))
	return l, trouble
}

func (l ledger) entries(t *testing.T, key string) (n int) {
	t.Helper()
	require.NoError(t, l.db.QueryRowContext(context.Background(), `SELECT count(*) FROM entry WHERE key = $1`, key).Scan(&n))
	return n
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestAKeyIsBookedOnceWhateverBecomesOfCommits(t *testing.T) {
	eachDatabase(t, func(t *testing.T, dsn string) {
		s := settings{dsn: dsn, payments: stress.Rounds(40), clients: 16, lose: 0.75, limit: time.Second, delay: 50 * time.Millisecond, seed: 1}
		f, err := s.pay(t.Context(), ways[1].key)
		require.NoError(t, err)
		t.Logf("%+v", *f)
		assert.Zero(t, f.twice)
		assert.Zero(t, f.never)
		assert.NotZero(t, f.unknown)
		assert.NotZero(t, f.replayed)
		assert.NotZero(t, f.booked+f.not)
	})
}

func TestANewKeyForEachRequestPaysTwice(t *testing.T) {
	f, err := settings{payments: 100, clients: 4, lose: 0.5, limit: time.Second, delay: 10 * time.Millisecond}.pay(t.Context(), ways[0].key)
	require.NoError(t, err)
	assert.NotZero(t, f.twice, "so the figures of the other test can fail")
	assert.Zero(t, f.never)
}

func TestARetryNearTheDeadlineLeavesOneRow(t *testing.T) {
	eachDatabase(t, func(t *testing.T, dsn string) {
		l, trouble := open(t, dsn)
		trouble.set(0.5)
		said := map[string]int{}
		for i := range stress.Rounds(30) {
			p := payment{Key: rand.Text(), Account: "a", Cents: int64(i + 1)}
			// The first try ends anywhere: before the transaction, in it, in its COMMIT.
			first := l.pay(within(t, time.Duration(1+i%20)*time.Millisecond), p)
			said[budget.KindOf(first).String()]++
			require.Eventually(t, func() bool {
				err := l.pay(within(t, 10*time.Second), p)
				return err == nil || errors.Is(err, errPaid)
			}, 30*time.Second, time.Millisecond)
			require.Equal(t, 1, l.entries(t, p.Key), "after %v", first)
		}
		t.Log(said)
		assert.NotZero(t, said[budget.DeadlineExceeded.String()]+said[budget.LocalBudgetRejected.String()])
	})
}

func TestTheReconcilerIsRightAboutEveryCommitWithoutAnAnswer(t *testing.T) {
	eachDatabase(t, func(t *testing.T, dsn string) {
		l, trouble := open(t, dsn)
		r := newReconciler(l.db)
		refused := 0
		for range stress.Rounds(20) {
			p := payment{Key: rand.Text(), Account: "a", Cents: 1}
			trouble.set(1)
			err := l.pay(within(t, 10*time.Second), p)
			trouble.set(0)
			var commit *curfewsql.CommitError
			if !errors.As(err, &commit) { // it was a slow one
				require.NoError(t, err)
				continue
			}
			if commit.Outcome == curfewsql.NotCommitted { // a part of COMMIT was sent, and curfewpgx knows
				require.Zero(t, l.entries(t, p.Key), "%v", err)
				refused++
				continue
			}
			require.Equal(t, curfewsql.Unknown, commit.Outcome, "%v", err)
			r.take(p.Key, commit)
			require.True(t, r.open(p.Key))
			booked, not := r.counts()
			r.settle(t.Context())
			require.False(t, r.open(p.Key))
			b, n := r.counts()
			require.Equal(t, l.entries(t, p.Key), b-booked)
			require.Equal(t, 1-l.entries(t, p.Key), n-not)
		}
		booked, not := r.counts()
		t.Logf("%d booked, %d not, %d known at once not to be", booked, not, refused)
		assert.NotZero(t, booked)
		assert.NotZero(t, not+refused)
	})
}

func TestWhatIsUnderWayOrUnknownIsOpenAndThenOneOrTheOther(t *testing.T) {
	l, trouble := open(t, "")
	s := &service{ledger: l, reconciler: newReconciler(l.db)}
	server := httptest.NewServer(s.handler(10 * time.Second))
	defer server.Close()
	c := newClient(server.URL, 10*time.Second)
	status := func(key string) int {
		code, err := c.status(t.Context(), key)
		require.NoError(t, err)
		return code
	}
	assert.Equal(t, http.StatusNotFound, status("k"))
	end := s.reconciler.begin("k")
	assert.Equal(t, http.StatusAccepted, status("k"))
	end()
	assert.Equal(t, http.StatusNotFound, status("k"))

	trouble.set(1)
	for i := 0; s.unknown.Load() == 0; i++ {
		key := fmt.Sprint("u", i)
		code, err := c.post(t.Context(), payment{Key: key, Account: "a", Cents: 1})
		require.NoError(t, err)
		if s.unknown.Load() == 0 {
			require.Equal(t, http.StatusCreated, code) // a slow commit
			continue
		}
		assert.Equal(t, http.StatusAccepted, code)
		paid := l.entries(t, key) == 1
		if !paid {
			assert.Equal(t, http.StatusAccepted, status(key))
		}
		trouble.set(0)
		s.reconciler.settle(t.Context())
		want := http.StatusNotFound
		if paid {
			want = http.StatusOK
		}
		assert.Equal(t, want, status(key))
		code, err = c.post(t.Context(), payment{Key: key, Account: "a", Cents: 1})
		require.NoError(t, err)
		assert.Contains(t, []int{http.StatusCreated, http.StatusOK}, code)
		assert.Equal(t, 1, l.entries(t, key))
	}
}

func TestRequestsThatAreNoPaymentsAreRefused(t *testing.T) {
	l, _ := open(t, "")
	server := httptest.NewServer((&service{ledger: l, reconciler: newReconciler(l.db), useful: time.Second}).handler(10 * time.Second))
	defer server.Close()
	c := newClient(server.URL, 10*time.Second)
	post := func(p payment) int {
		code, err := c.post(t.Context(), p)
		require.NoError(t, err)
		return code
	}
	assert.Equal(t, http.StatusCreated, post(payment{Key: "k", Account: "a", Cents: 5}))
	assert.Equal(t, http.StatusOK, post(payment{Key: "k", Account: "a", Cents: 5}))
	assert.Equal(t, http.StatusUnprocessableEntity, post(payment{Key: "k", Account: "a", Cents: 6}))
	assert.Equal(t, http.StatusUnprocessableEntity, post(payment{Key: "k", Account: "b", Cents: 5}))
	assert.Equal(t, http.StatusBadRequest, post(payment{Account: "a", Cents: 5}))
	assert.Equal(t, http.StatusBadRequest, post(payment{Key: "l", Account: "a"}))
	assert.ErrorIs(t, c.pay(t.Context(), payment{Account: "a"}, func() string { return "n" }), errRefused)
	c.limit = 900 * time.Millisecond // less than is useful
	assert.Equal(t, http.StatusServiceUnavailable, post(payment{Key: "m", Account: "a", Cents: 5}))
	assert.Equal(t, 1, l.entries(t, "k"))
	assert.Zero(t, l.entries(t, "m"))
}

func TestTheProgramShowsBothWaysAndLeavesNothing(t *testing.T) {
	dsn := servers.Start(t, servers.PostgreSQL).DSN() // before TMPDIR is one that only we may enter
	t.Setenv("TMPDIR", t.TempDir())
	for _, args := range []string{"", "-dsn " + dsn} {
		var out strings.Builder
		require.NoError(t, run(t.Context(), append(strings.Fields(args), "-payments", "20", "-limit", "300ms"), &out))
		assert.Regexp(t, `one key for each payment +\d+ +20 +0 +0\n`, out.String())
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "*"))
	require.NoError(t, err)
	assert.Empty(t, left)
	db, err := database.Place{DSN: dsn, Schema: "public"}.Open(t.Context())
	require.NoError(t, err)
	defer db.Close()
	var schemas int
	require.NoError(t, db.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'curfew%'`).Scan(&schemas))
	assert.Zero(t, schemas)
	for args, want := range map[string]string{
		"-payments 0": "-payments 0", "-clients 65": "-clients 65", "-lose NaN": "-lose NaN", "-limit 1ms": "-limit 1ms", "more": `"more"`,
		"-dsn postgres://u:secret@[": "data source name",
	} {
		err := run(t.Context(), strings.Fields(args), &strings.Builder{})
		require.Error(t, err)
		assert.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "secret")
	}
}
