package checkpoint

import (
	"context"
	"io"
	"iter"
)

// Seq returns seq with a checkpoint before each element: it yields each of them with
// a nil error, or, when ctx ends, the zero V with the error of Point.Err, and then
// nothing more. A walk without an error was a whole one.
//
// ctx is asked once more after the last element, since a seq that obeys ctx itself
// may have stopped for it. A whole walk that ends just as ctx does may therefore end
// with an error too.
//
// The result may be walked as often as seq, by several goroutines if seq may. A nil
// ctx or seq panics.
func Seq[V any](ctx context.Context, seq iter.Seq[V]) iter.Seq2[V, error] {
	if ctx == nil {
		panic("checkpoint: Seq: nil context")
	}
	if seq == nil {
		panic("checkpoint: Seq: nil seq")
	}
	return func(yield func(V, error) bool) {
		var zero V
		p := New(ctx)
		if err := p.Err(); err != nil { // before the first element is computed
			yield(zero, err)
			return
		}
		for v := range seq {
			if err := p.Err(); err != nil {
				yield(zero, err)
				return
			}
			if !yield(v, nil) {
				return
			}
		}
		if err := p.look(); err != nil {
			yield(zero, err)
		}
	}
}

// Reader returns a reader of r with a checkpoint before each Read: when ctx has
// ended, Read returns the error of Point.Err and leaves r alone. It does not
// interrupt a Read that blocks; that takes a deadline of r's own, if r has one.
//
// It is for one goroutine at a time. A nil ctx or r panics.
func Reader(ctx context.Context, r io.Reader) io.Reader {
	if ctx == nil {
		panic("checkpoint: Reader: nil context")
	}
	if r == nil {
		panic("checkpoint: Reader: nil reader")
	}
	return &reader{New(ctx), r}
}

type reader struct {
	p *Point
	r io.Reader
}

func (r *reader) Read(b []byte) (int, error) {
	if err := r.p.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(b)
}
