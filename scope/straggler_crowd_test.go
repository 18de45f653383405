package scope

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestAReportWaitsWhileACrowdLeaves(t *testing.T) {
	c := &core{unusual: &nothingUnusual}
	assert.False(t, c.leavingLocked(0), "a few are told of at once")
	var all sync.WaitGroup
	some, rest := make(chan struct{}), make(chan struct{})
	for i := range crowd + 2000 {
		until := rest
		if i < 1000 {
			until = some
		}
		all.Go(func() { <-until })
	}
	assert.True(t, c.leavingLocked(0), "it looks twice")
	assert.False(t, c.leavingLocked(0), "nobody has left since")
	assert.False(t, c.leavingLocked(c.grace+crowdWait+1), "it does not wait for ever")
	close(some)
	assert.Eventually(t, func() bool { return c.leavingLocked(0) }, 10*time.Second, time.Millisecond)
	close(rest)
	all.Wait()
}

// A task may be found late before it has got its own context, which is then the one
// that is asked, and has not been told of the end.
func TestATaskWhoseOwnContextDoesNotKnowOfTheEndIsNotOverdueYet(t *testing.T) {
	assert.Zero(t, sinceEnd(time.Now(), nil))
}
