package ctxnode_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/ctxnode"
)

func TestAMarkAddsItsNumberAndNothingElse(t *testing.T) {
	outer := enter(t, context.WithValue(context.Background(), key("user"), "ann"), budget.Within(1e9))
	first := &ctxnode.Mark{Context: outer, Attempt: 1}
	inner := &ctxnode.Mark{Context: context.WithValue(first, key("a"), 1), Attempt: 2}

	assert.Zero(t, ctxnode.AttemptOf(outer))
	assert.Equal(t, 1, ctxnode.AttemptOf(first))
	assert.Equal(t, 1, ctxnode.AttemptOf(context.WithValue(first, key("a"), 1)))
	assert.Equal(t, 2, ctxnode.AttemptOf(inner), "the innermost counts")
	assert.Equal(t, "ann", inner.Value(key("user")))
	assert.Equal(t, outer.Done(), inner.Done())
	assert.Equal(t, fmt.Sprint(outer), fmt.Sprint(first))
	derived, cancel := context.WithCancel(first)
	defer cancel()
	assert.Equal(t, fmt.Sprint(outer)+".WithCancel", fmt.Sprint(derived))
	foreign := struct {
		context.Context
		secret string
	}{outer, "s3cret"}
	assert.NotContains(t, fmt.Sprint(&ctxnode.Mark{Context: &foreign}), "s3cret")
}

// A mark must not cost a scope below it the way up: it is attached directly,
// and nobody makes a std context for that.
func TestWhatIsOpenedBelowAMarkIsAttachedDirectly(t *testing.T) {
	outer, cancel, err := budget.Enter(context.Background(), budget.Within(1e9))
	assert.NoError(t, err)
	node := ctxnode.Find(outer).Node()
	marked := &ctxnode.Mark{Context: &ctxnode.Mark{Context: outer, Attempt: 1}, Attempt: 2}

	assert.Same(t, node, ctxnode.Find(marked).Node())
	inner := enter(t, marked, budget.Inherited())
	assert.Equal(t, 1, node.Linked())
	assert.False(t, node.HasStd(), "the attachment asked for Done")
	assert.Equal(t, 2, ctxnode.AttemptOf(inner))

	cancel()
	assert.Same(t, context.Cause(outer), context.Cause(inner))
	assert.ErrorIs(t, inner.Err(), context.Canceled)
}

// With a std context around the mark, Done decides, as it does without one.
func TestAMarkBelowWithoutCancelIsNotAttached(t *testing.T) {
	outer := enter(t, context.Background(), budget.Within(1e9))
	enter(t, &ctxnode.Mark{Context: context.WithoutCancel(outer), Attempt: 1}, budget.Within(1e9))
	assert.Zero(t, ctxnode.Find(outer).Node().Linked())
}
