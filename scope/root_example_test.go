package scope_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// A server that ends in order when the process is told to: it takes nothing new,
// brings to an end what it has begun, and says what did not end in time.
func ExampleRoot() {
	// In a main: signal.NotifyContext(context.Background(), syscall.SIGTERM)
	signalled, sigterm := context.WithCancel(context.Background())
	defer sigterm()

	root := scope.NewRoot("shop")
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			audit := func(context.Context) error {
				fmt.Println("audited", r.URL.Path)
				return nil
			}
			if err := root.Go(r.Context(), "audit", budget.Within(time.Minute), audit); err != nil {
				audit(r.Context()) // the root drains: do it before the answer
			}
			fmt.Fprint(w, "sold")
		}),
		// Scopes of requests stand in the root's live tree.
		BaseContext: func(net.Listener) context.Context { return root.Context() },
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	root.Serve("http", func(context.Context) error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	root.Serve("http shutdown", func(ctx context.Context) error {
		<-scope.Stopping(ctx)
		return server.Shutdown(ctx) // bounded: ctx ends before Drain's deadline
	})
	root.Cleanup("close the database", func(context.Context) error { fmt.Println("database closed"); return nil })

	resp, err := http.Get("http://" + listener.Addr().String() + "/lamp")
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()

	sigterm()
	fmt.Println(root.DrainAfter(signalled, 20*time.Second)) // the last line of main
	// Output:
	// audited /lamp
	// database closed
	// <nil>
}

func ExampleRoot_WriteText() {
	root := scope.NewRoot("shop")
	root.Serve("consumer", func(ctx context.Context) error { <-scope.Stopping(ctx); return nil })

	// Behind an operator's endpoint, or on SIGQUIT:
	http.HandleFunc("/debug/scopes", func(w http.ResponseWriter, _ *http.Request) { root.WriteText(w) })

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	root.Drain(ctx)
	var tree firstWord
	root.WriteText(&tree)
	fmt.Println(string(tree))
	// Output: scope shop: closed
}

// firstWord keeps what is the same in each run.
type firstWord []byte

func (f *firstWord) Write(p []byte) (int, error) {
	if *f == nil {
		*f = append(firstWord{}, p[:len("scope shop: closed")]...)
	}
	return len(p), nil
}

func ExampleStopping() {
	root := scope.NewRoot("shop")
	orders := make(chan int)
	root.Serve("consumer", func(ctx context.Context) error {
		for {
			select {
			case <-scope.Stopping(ctx):
				return nil
			case order := <-orders:
				if err := scope.Run(ctx, "order", budget.Within(time.Second), func(context.Context, *scope.Scope) error {
					fmt.Println("order", order)
					return nil
				}); err != nil {
					return err
				}
			}
		}
	})
	orders <- 7
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := root.Drain(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	// Output: order 7
}
