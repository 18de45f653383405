// Package curfewredis keeps the shared part of a fleet's retry budget in Redis:
// one script call per member and period, safe to repeat, and never in the way
// of a first attempt when Redis is slow or gone. It is a module of its own, so
// that only those who use go-redis depend on it.
//
//	client := redis.NewClient(&redis.Options{
//		Addr: addr, ContextTimeoutEnabled: true, MaxRetries: -1,
//		DialTimeout: 250 * time.Millisecond, DialerRetries: 1,
//	})
//	pool, err := curfewredis.New(client, curfewredis.Config{})
//	...
//	payments := retrybudget.New("payments", retrybudget.Config{Pool: pool})
//	defer payments.Close(ctx) // gives back what this process did not spend
//
// It works with Redis from version 6 on and with servers that speak as it does,
// alone, behind Sentinel, and as a cluster: the keys of a target lie in one slot.
// What a failover, a restart or a FLUSHALL forgets is lost to the fleet, and is not
// lent twice: the pool starts anew, and lends nothing of the floor for a second and a
// half. It sees a failover by the replication ID of the server, for which the user
// must be allowed INFO; without that, and while two servers both take themselves for
// the master, the floor can be lent twice. The other commands are EVALSHA, EVAL, TIME,
// DEL, EXPIRE, and those of hashes and sorted sets.
//
// A member finds the server again by one call each period, a quarter of a second.
// The two settings of dialling above keep the client from standing in the way: by
// its defaults a dial into the void takes five times five seconds. After as many
// failed dials as it may have connections, go-redis looks by itself once a second,
// and until then a server that was down is not found.
//
// The time is that of the server. Members' clocks do not matter.
//
// # Cancels that last
//
// [Cancels] remembers which jobs somebody cancelled, for checkpoint.Watch: the
// work may run on another machine, or not have begun.
//
// # Reading a cache within the budget
//
// A read from a cache is worth a small part of the time that is left and no more:
// what it costs when the cache is slow is taken from the source behind it. With
// ContextTimeoutEnabled a client obeys the context, and so its timeout is what is
// left of the budget; see the example of the package.
package curfewredis
