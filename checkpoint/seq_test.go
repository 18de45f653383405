package checkpoint_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/checkpoint"
)

// walk collects what seq yields, and checks that an error is the last of it.
func walk[V comparable](t *testing.T, seq iter.Seq2[V, error]) (all []V, last error) {
	var zero V
	for v, err := range seq {
		require.NoError(t, last, "something after the error")
		if err != nil {
			assert.Equal(t, zero, v)
			last = err
			continue
		}
		all = append(all, v)
	}
	return all, last
}

func count(n int, each func(i int)) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range n {
			each(i)
			if !yield(i) {
				return
			}
		}
	}
}

func TestSeqOfAWholeWalkIsTheSequence(t *testing.T) {
	for _, n := range []int{0, 1, 2, 10_000} {
		all, err := walk(t, checkpoint.Seq(context.Background(), count(n, func(int) {})))
		assert.NoError(t, err)
		assert.Equal(t, slices.Collect(count(n, func(int) {})), all)
	}
}

func TestAWalkThatWasCutEndsWithTheCause(t *testing.T) {
	for _, at := range []int{0, 1, 7, 9} {
		ctx, cancel := enter(t, context.Background(), budget.Within(time.Hour))
		computed := 0
		all, err := walk(t, checkpoint.Seq(ctx, count(10, func(i int) {
			computed++
			if i == at {
				cancel()
			}
		})))
		assert.Same(t, context.Cause(ctx), err)
		assert.Len(t, all, at, "the element in hand when ctx ended is not handed on")
		assert.Equal(t, at+1, computed)
	}
}

func TestASeqThatStopsForItsContextDoesNotLookWhole(t *testing.T) {
	ctx, cancel := enter(t, context.Background(), budget.Within(time.Hour))
	obeys := func(yield func(int) bool) {
		for i := 0; ctx.Err() == nil && yield(i); i++ {
			if i == 3 {
				cancel()
			}
		}
	}
	all, err := walk(t, checkpoint.Seq(ctx, obeys))
	assert.Equal(t, []int{0, 1, 2, 3}, all)
	assert.ErrorIs(t, err, context.Canceled)
}

func TestNothingIsComputedUnderAnEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	all, err := walk(t, checkpoint.Seq(ctx, count(3, func(int) { t.Error("computed") })))
	assert.Empty(t, all)
	assert.ErrorIs(t, err, context.Canceled)
}

// A consumer that breaks off hears no error, and a panic or break inside is its own.
func TestAWalkMayBreakOff(t *testing.T) {
	ctx, cancel := enter(t, context.Background(), budget.Within(time.Hour))
	seq := checkpoint.Seq(ctx, count(10, func(int) {}))
	for v, err := range seq {
		assert.NoError(t, err)
		if v == 2 {
			cancel()
			break
		}
	}
	_, err := walk(t, seq)
	assert.ErrorIs(t, err, context.Canceled, "it may be walked again")
}

func TestReaderReadsUntilItsContextEnds(t *testing.T) {
	text := bytes.Repeat([]byte("x"), 1000)
	all, err := io.ReadAll(checkpoint.Reader(context.Background(), iotest.OneByteReader(bytes.NewReader(text))))
	assert.NoError(t, err)
	assert.Equal(t, text, all)

	ctx, cancel := enter(t, context.Background(), budget.Within(time.Hour))
	under := bytes.NewReader(text)
	r := checkpoint.Reader(ctx, under)
	_, err = io.ReadFull(r, make([]byte, 100))
	require.NoError(t, err)
	cancel()
	n, err := r.Read(make([]byte, 100))
	assert.Zero(t, n)
	assert.Same(t, context.Cause(ctx), err)
	assert.Equal(t, 900, under.Len(), "the reader was left alone")

	boom := errors.New("boom")
	_, err = io.ReadAll(checkpoint.Reader(context.Background(), iotest.ErrReader(boom)))
	assert.Same(t, boom, err)
}

// A copy that goes past its deadline stops there, and does not look whole.
func TestACopyStopsAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, _ := enter(t, context.Background(), budget.Within(time.Second))
		slow := readerFunc(func(b []byte) (int, error) { time.Sleep(30 * time.Millisecond); return len(b), nil })
		start := time.Now()
		n, err := io.Copy(io.Discard, checkpoint.Reader(ctx, slow))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Positive(t, n)
		assert.Equal(t, 1020*time.Millisecond, time.Since(start), "at the end of the read in which it passed")
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }
