package migrating

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/oklog/run"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

func (shop *Shop) serveGroup(ctx context.Context, l net.Listener, h http.Handler) error {
	var g run.Group
	server := &http.Server{Handler: h}
	g.Add(func() error { return server.Serve(l) }, func(error) {
		stop, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		_ = server.Shutdown(stop)
	})
	polling, stop := context.WithCancel(context.Background())
	g.Add(func() error {
		tick := time.NewTicker(time.Minute)
		defer tick.Stop()
		for {
			select {
			case <-polling.Done():
				return nil
			case <-tick.C:
				if err := shop.Poll(polling); err != nil {
					slog.Warn("poll", "error", err)
				}
			}
		}
	}, func(error) { stop() })
	g.Add(run.ContextHandler(ctx))
	return g.Run()
}

func (shop *Shop) serveRoot(ctx context.Context, l net.Listener, h http.Handler) error {
	root := scope.NewRoot("shop")
	server := &http.Server{Handler: h, BaseContext: func(net.Listener) context.Context { return root.Context() }}
	_ = root.Serve("http", func(context.Context) error {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	_ = root.Serve("http-shutdown", func(ctx context.Context) error {
		<-scope.Stopping(ctx)
		return server.Shutdown(ctx)
	})
	_ = root.Serve("poll", func(ctx context.Context) error {
		tick := time.NewTicker(time.Minute)
		defer tick.Stop()
		for {
			select {
			case <-scope.Stopping(ctx):
				return nil
			case <-tick.C:
				err := scope.Run(ctx, "once", budget.Within(30*time.Second), func(ctx context.Context, _ *scope.Scope) error {
					return shop.Poll(ctx)
				})
				if err != nil {
					slog.Warn("poll", "error", err)
				}
			}
		}
	})
	return root.DrainAfter(ctx, 20*time.Second)
}
