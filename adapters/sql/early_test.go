package curfewsql

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestAnEarlyCtxEndsAtItsTimeOrWithItsParentWhetherAskedForDoneOrNot(t *testing.T) {
	for name, asked := range map[string]bool{"asked for Done": true, "not asked": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := func() (*early, context.CancelFunc) {
					parent, cancel := context.WithTimeout(t.Context(), time.Second)
					e := &early{Context: parent, at: time.Now().Add(950 * time.Millisecond)}
					if asked {
						e.Done()
					}
					return e, cancel
				}
				e, cancel := begin()
				defer cancel()
				time.Sleep(949 * time.Millisecond)
				assert.NoError(t, e.Err())
				time.Sleep(time.Millisecond)
				synctest.Wait()
				assert.Equal(t, context.DeadlineExceeded, e.Err())
				<-e.Done()
				e.release()
				assert.Equal(t, context.DeadlineExceeded, e.Err())

				e, cancel = begin()
				cancel()
				assert.Equal(t, context.Canceled, e.Err())
				<-e.Done()
				e.release()
				at, ok := e.Deadline()
				assert.True(t, ok)
				assert.Equal(t, e.at, at)
			})
		})
	}
}
