package scope_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// TestMapSeqYieldsWhatIsThereWhenTheNextElementComes: a slow producer does not have
// to fill the whole width first.
func TestMapSeqYieldsWhatIsThereWhenTheNextElementComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		start := time.Now()
		everySecond := func(yield func(int) bool) {
			for i := range 5 {
				time.Sleep(time.Second)
				if !yield(i) {
					return
				}
			}
		}
		var came []time.Duration
		for _, err := range scope.MapSeq(ctx, "seq", 10, everySecond, func(context.Context, int) (int, error) { return 0, nil }) {
			assert.NoError(t, err)
			came = append(came, time.Since(start))
		}
		assert.Equal(t, []time.Duration{2 * time.Second, 3 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second}, came)
	})
}

// TestMapSeqSurvivesWhatProducerConsumerAndItemsDo: a panic or a Goexit of each ends
// the loop as it would have without MapSeq, with and without slots.
func TestMapSeqSurvivesWhatProducerConsumerAndItemsDo(t *testing.T) {
	act := map[string]func(){"panic": func() { panic("boom") }, "goexit": goexit, "nothing": func() {}}
	for _, slots := range []int{0, 1} {
		for what, do := range act {
			for _, who := range []string{"producer", "consumer", "item"} {
				t.Run(fmt.Sprint(who, " ", what, " ", slots), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						at := func(w string, i int) {
							if w == who && i == 7 {
								do()
							}
						}
						how := "goexit"
						done := make(chan struct{})
						go func() {
							defer close(done)
							defer func() {
								if v := recover(); v != nil {
									how = "panic"
								}
							}()
							ctx := scope.WithTrace(t.Context(), &scope.Trace{TaskPanicked: func(*scope.PanicError) {}})
							scope.Run(ctx, "x", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
								if slots > 0 {
									s.SetSlots(slots)
								}
								in := func(yield func(int) bool) {
									for i := 0; i < 20 && yield(i); i++ {
										at("producer", i)
									}
								}
								n := 0
								for v, err := range scope.MapSeq(ctx, "seq", 4, in, func(_ context.Context, i int) (int, error) { at("item", i); return i, nil }) {
									if err != nil {
										assert.ErrorIs(t, err, scope.ErrGoexit)
										break
									}
									assert.Equal(t, n, v)
									at("consumer", v)
									n++
								}
								how = "nothing"
								if n < 20 {
									how = "goexit"
								}
								return nil
							})
						}()
						<-done
						assert.Equal(t, what, how)
					})
				})
			}
		}
	}
}
