package curfewredis

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Cancels remembers in Redis which jobs were cancelled. It is a source for
// checkpoint.Watch, on any machine, and outlives all of them. It may be used by
// many goroutines. There is nothing to close.
type Cancels struct {
	client redis.UniversalClient
	config Config
}

// NewCancels returns Cancels that use client, which has to be as for New.
func NewCancels(client redis.UniversalClient, c Config) (*Cancels, error) {
	c = c.settle("NewCancels")
	if err := check(client); err != nil {
		return nil, err
	}
	return &Cancels{client, c}, nil
}

// Cancel cancels job, which need not have begun, and remembers that for keep:
// longer than job can take to begin and to ask, a day if in doubt. Cancelling
// again keeps it anew. On an error the job may be cancelled or not: cancel again.
// An empty job, and a keep below a second, panic.
func (c *Cancels) Cancel(ctx context.Context, job string, keep time.Duration) error {
	mustName("Cancel", job)
	if keep < time.Second {
		panic(fmt.Sprintf("curfewredis: Cancel: keep %v is below a second", keep))
	}
	if err := c.client.Set(ctx, c.config.key("cancel", job), "1", keep).Err(); err != nil {
		return fmt.Errorf("curfewredis: cancel: %w", err)
	}
	return nil
}

// Forget forgets that job was cancelled, to let it run again. A context that has
// ended by then stays so. An empty job panics.
func (c *Cancels) Forget(ctx context.Context, job string) error {
	mustName("Forget", job)
	if err := c.client.Del(ctx, c.config.key("cancel", job)).Err(); err != nil {
		return fmt.Errorf("curfewredis: forget: %w", err)
	}
	return nil
}

// Cancelled reports whether job was cancelled. It is part of checkpoint.Source.
// An error says nothing about the job. An empty job panics.
func (c *Cancels) Cancelled(ctx context.Context, job string) (bool, error) {
	mustName("Cancelled", job)
	n, err := c.client.Exists(ctx, c.config.key("cancel", job)).Result()
	if err != nil {
		return false, fmt.Errorf("curfewredis: cancelled: %w", err)
	}
	return n > 0, nil
}

func mustName(method, job string) {
	if job == "" {
		panic("curfewredis: " + method + ": empty job")
	}
}
