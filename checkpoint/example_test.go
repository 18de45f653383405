package checkpoint_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/checkpoint"
)

// A computation that nobody could interrupt gives up at its deadline, and says which
// one that was.
func ExampleNew() {
	ctx, cancel, err := budget.Enter(context.Background(), budget.Within(20*time.Millisecond).Named("route maximum"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cancel()

	search := func() (best uint64, err error) {
		p := checkpoint.New(ctx)
		for n := uint64(1); ; n++ {
			if err := p.Err(); err != nil {
				return best, err
			}
			best = max(best, n*2654435761%1_000_003)
		}
	}
	best, err := search()
	fmt.Println(best > 0, err)
	// Output:
	// true budget: deadline exceeded: limit route maximum 20ms
}

// A sum over half of the rows is no sum: the error comes with the walk.
func ExampleSeq() {
	stock := map[string]int{"lamp": 7, "desk": 2, "chair": 11}
	total := func(ctx context.Context) (sum int, err error) {
		for n, err := range checkpoint.Seq(ctx, maps.Values(stock)) {
			if err != nil {
				return 0, err
			}
			sum += n
		}
		return sum, nil
	}

	ctx, cancel := context.WithCancel(context.Background())
	fmt.Println(total(ctx))
	cancel()
	fmt.Println(total(ctx))
	// Output:
	// 20 <nil>
	// 0 context canceled
}

func ExampleReader() {
	ctx, cancel, err := budget.Enter(context.Background(), budget.Within(time.Hour).Named("export"))
	if err != nil {
		fmt.Println(err)
		return
	}
	r := checkpoint.Reader(ctx, strings.NewReader("a long, long export"))

	text := make([]byte, 6)
	_, err = io.ReadFull(r, text)
	fmt.Printf("%s %v\n", text, err)
	cancel()
	_, err = io.ReadAll(r)
	fmt.Println(err)
	// Output:
	// a long <nil>
	// budget: cancelled
}

// Somebody cancels a job that runs elsewhere, by writing it down where all processes
// look.
func ExampleWatch() {
	var jobs checkpoint.Memory // a table or a key elsewhere

	ctx, stop := checkpoint.Watch(context.Background(), &jobs, "export-7", 5*time.Millisecond)
	defer stop()

	jobs.Cancel("export-7")

	p := checkpoint.New(ctx)
	for p.Err() == nil {
		// the next row
	}
	fmt.Println(p.Err())
	// Output:
	// budget: user cancelled: checkpoint: job "export-7" was cancelled
}
