package ctxnode_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/internal/ctxnode"
)

type valueKey struct{}

func TestARebasedContextHasTheValuesOfOneAndThePlaceOfAnother(t *testing.T) {
	var base, elsewhere, n ctxnode.Node
	base.Name, elsewhere.Name, n.Name = "base", "elsewhere", "n"
	base.Start(t.Context(), time.Time{}, false)
	elsewhere.Start(t.Context(), time.Now().Add(time.Hour), false)
	ended, cancel := context.WithCancel(context.WithValue(&elsewhere.View, valueKey{}, "v"))
	cancel()

	ctx := ctxnode.Rebase(ended, &base.View)
	assert.Equal(t, "v", ctx.Value(valueKey{}))
	assert.NoError(t, ctx.Err())
	assert.NoError(t, context.Cause(ctx))
	assert.Nil(t, ctx.Done())
	_, bounded := ctx.Deadline()
	assert.False(t, bounded)
	assert.Same(t, &base.View, ctxnode.Find(ctx))

	n.PutUnder(&base)
	n.Start(ctx, time.Time{}, false)
	assert.Equal(t, "base/n", n.Path())
	assert.Equal(t, "v", n.Value(valueKey{}))
	child, cancelChild := context.WithCancel(&n.View) // std finds the right cancel context
	defer cancelChild()
	elsewhere.End(&ctxnode.Ending{Err: context.Canceled, Cause: context.Canceled})
	assert.NoError(t, child.Err())
	base.End(&ctxnode.Ending{Err: context.Canceled, Cause: context.Canceled})
	<-child.Done()
}

func TestANodeBesideItsParentEndsOnlyByItself(t *testing.T) {
	var up, n ctxnode.Node
	deadline := time.Now().Add(-time.Second)
	up.Start(t.Context(), time.Time{}, false)
	n.StartBeside(context.WithValue(&up.View, valueKey{}, "v"), deadline)
	up.End(&ctxnode.Ending{Err: context.Canceled, Cause: context.Canceled})
	assert.NoError(t, n.Err())
	assert.Equal(t, "v", n.Value(valueKey{}))
	d, ok := n.Deadline()
	assert.True(t, ok)
	assert.Equal(t, deadline, d)
	n.End(&ctxnode.Ending{Err: context.Canceled, Cause: context.Canceled})
	<-n.Done()
}

// A watcher notes what it is told.
type watcher struct {
	name  string
	takes bool // whether it looks after those below
	told  *[]string
	mu    *sync.Mutex
}

func (w watcher) Ended(_ *ctxnode.Ending, watched bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	note := w.name
	if watched {
		note += " (watched)"
	}
	*w.told = append(*w.told, note)
	return watched || w.takes
}

// TestOwnersAreToldFromTheTopDown: where the end began first, and those below with
// whether somebody above looks after them.
func TestOwnersAreToldFromTheTopDown(t *testing.T) {
	for name, c := range map[string]struct {
		takes string
		want  []string
	}{
		"the top one looks after all": {"a", []string{"a", "b (watched)", "c (watched)"}},
		"the one in the middle does":  {"b", []string{"a", "b", "c (watched)"}},
		"nobody does":                 {"", []string{"a", "b", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			var told []string
			var mu sync.Mutex
			parent := t.Context()
			nodes := map[string]*ctxnode.Node{}
			for _, name := range []string{"a", "no owner", "b", "c"} {
				n := &ctxnode.Node{Name: name}
				if name != "no owner" {
					n.Owner = watcher{name, name == c.takes, &told, &mu}
				}
				n.Start(parent, time.Time{}, false)
				nodes[name], parent = n, &n.View
			}
			nodes["a"].End(&ctxnode.Ending{Err: context.Canceled, Cause: context.Canceled})
			assert.Equal(t, c.want, told)
			nodes["a"].End(&ctxnode.Ending{Err: context.Canceled, Cause: context.Canceled})
			assert.Equal(t, c.want, told, "once")
		})
	}
}
