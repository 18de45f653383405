package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/curfew-go/curfew/budget"
)

func TestQueueIsFirstInFirstOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			p      = newPool(poolSize{workers: 1, queue: 100})
			mu     sync.Mutex
			served []int
		)
		for i := range 50 {
			go func() {
				leave, err := p.enter(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				served = append(served, i)
				mu.Unlock()
				time.Sleep(time.Second)
				leave()
			}()
			synctest.Wait() // in line before the next one comes
		}
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if !slices.IsSorted(served) || len(served) != 50 {
			t.Errorf("served in the order %v", served)
		}
	})
}

func TestFullQueueRefusesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(poolSize{workers: 1, queue: 1})
		leave, err := p.enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		waited := make(chan error)
		go func() {
			leave, err := p.enter(t.Context())
			if err == nil {
				leave()
			}
			waited <- err
		}()
		synctest.Wait()
		if _, err := p.enter(t.Context()); budget.KindOf(err) != budget.Overloaded {
			t.Errorf("a full queue answered %v", err)
		}
		leave()
		if err := <-waited; err != nil {
			t.Errorf("the one who waited got %v", err)
		}
	})
}

func TestExpiredRequestLeavesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(poolSize{workers: 1, queue: 5})
		leave, err := p.enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer leave()
		ctx, cancel, err := budget.Enter(t.Context(), budget.Within(3*time.Second))
		defer cancel()
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = p.enter(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 3*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if n := p.waiting.Load(); n != 0 {
			t.Errorf("%d still wait", n)
		}
	})
}
