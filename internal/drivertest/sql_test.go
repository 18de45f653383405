package drivertest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/servers"
	"github.com/curfew-go/curfew/scope"
)

// endings are the ways in which the context of a running statement ends. Each
// returns the error of statement, which runs until then.
var endings = []struct {
	name     string
	is, not  error
	kind     budget.Kind // of the context's cause
	runUntil func(ctx context.Context, statement func(context.Context) error) error
}{
	{"deadline", context.DeadlineExceeded, context.Canceled, budget.DeadlineExceeded,
		func(ctx context.Context, statement func(context.Context) error) error {
			ctx, cancel, err := budget.Enter(ctx, budget.Within(limit).Named("statement"))
			defer cancel()
			if err != nil {
				return err
			}
			return statement(ctx)
		}},
	{"deadline of a std parent", context.DeadlineExceeded, context.Canceled, budget.DeadlineExceeded,
		func(ctx context.Context, statement func(context.Context) error) error {
			ctx, stop := context.WithTimeout(ctx, limit)
			defer stop()
			ctx, cancel, err := budget.Enter(ctx, budget.Inherited())
			defer cancel()
			if err != nil {
				return err
			}
			return statement(ctx)
		}},
	{"cancel", context.Canceled, context.DeadlineExceeded, budget.Cancelled,
		func(ctx context.Context, statement func(context.Context) error) error {
			ctx, cancel, err := budget.Enter(ctx, budget.Within(time.Minute))
			defer cancel()
			if err != nil {
				return err
			}
			time.AfterFunc(limit, cancel)
			return statement(ctx)
		}},
	{"a sibling's failure", context.Canceled, context.DeadlineExceeded, budget.SiblingFailed,
		func(ctx context.Context, statement func(context.Context) error) error {
			var came error
			scope.Run(ctx, "page", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
				s.Go("statement", func(ctx context.Context) error {
					came = statement(ctx)
					return came
				})
				s.Go("fails", func(context.Context) error {
					<-time.After(limit)
					return errors.New("boom")
				})
				return nil
			})
			return came
		}},
}

const (
	limit = 100 * time.Millisecond
	// A statement that nobody cuts takes five seconds. Its end must have come
	// well before that, with room for a busy machine.
	late = 4 * time.Second
)

func TestContextThroughDatabaseSQL(t *testing.T) {
	for _, server := range []struct {
		kind  servers.Kind
		sleep string
	}{
		{servers.PostgreSQL, "select pg_sleep(5)"},
		{servers.MariaDB, "select sleep(5)"},
	} {
		t.Run(string(server.kind), func(t *testing.T) {
			db := openSQL(t, servers.Start(t, server.kind))
			ask := sqlClient(db)
			for _, end := range endings {
				t.Run(end.name, func(t *testing.T) {
					mustAnswer(t, ask) // connected before the clock starts
					started := time.Now()
					var cause error
					err := end.runUntil(t.Context(), func(ctx context.Context) error {
						_, err := db.ExecContext(ctx, server.sleep)
						cause = context.Cause(ctx)
						return err
					})
					if !errors.Is(err, end.is) || errors.Is(err, end.not) {
						t.Errorf("%s returned %v, want %v alone", server.sleep, err, end.is)
					}
					if kind := budget.KindOf(cause); kind != end.kind {
						t.Errorf("cause %v is %v, want %v", cause, kind, end.kind)
					}
					if took := time.Since(started); took < limit || took > late {
						t.Errorf("%s took %v", server.sleep, took)
					}
					mustAnswer(t, ask) // the pool is still good
				})
			}
		})
	}
}
