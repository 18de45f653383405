package curfewredis

import (
	"fmt"

	"github.com/redis/go-redis/v9"
)

// A ClientError says why a client is not taken.
type ClientError struct{ Why string }

// Error says it.
func (e *ClientError) Error() string { return "curfewredis: client refused: " + e.Why }

// check refuses a client that would not obey a context, or repeat by itself what
// a budget is there to bound. It does not talk to the server.
func check(client redis.UniversalClient) error {
	obeys, retries := false, 0
	switch c := client.(type) {
	case *redis.Client:
		if c == nil {
			return &ClientError{"it is nil"}
		}
		obeys, retries = c.Options().ContextTimeoutEnabled, c.Options().MaxRetries
	case *redis.ClusterClient:
		if c == nil {
			return &ClientError{"it is nil"}
		}
		// A cluster's client has no retries unless asked, and follows redirections,
		// which are bounded by MaxRedirects and by the context.
		obeys, retries = c.Options().ContextTimeoutEnabled, c.Options().MaxRetries
	case nil:
		return &ClientError{"it is nil"}
	default:
		return &ClientError{fmt.Sprintf("a %T is neither *redis.Client nor *redis.ClusterClient", client)}
	}
	switch {
	case !obeys:
		return &ClientError{"it does not obey contexts: set ContextTimeoutEnabled"}
	case retries > 0:
		return &ClientError{fmt.Sprintf("it repeats calls by itself, up to %d times: set MaxRetries to -1", retries)}
	}
	return nil
}
