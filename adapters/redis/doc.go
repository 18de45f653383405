// Package curfewredis keeps the shared part of a fleet's retry budget in Redis:
// one script call per member and period, safe to repeat, and never in the way
// of a first attempt when Redis is slow or gone. It is a module of its own, so
// that only those who use go-redis depend on it.
//
//	client := redis.NewClient(&redis.Options{
//		Addr: addr, ContextTimeoutEnabled: true, MaxRetries: -1,
//		DialTimeout: 250 * time.Millisecond, DialerRetries: 1,
//	})
//	defer client.Close() // after the Budgets, which have something to say in the end
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
// the master, the floor can be lent twice.
//
// The other commands are EVALSHA, EVAL, TIME, DEL, EXPIRE, HMGET, HSET, HDEL, ZADD,
// ZCARD, ZCOUNT, ZRANGEBYSCORE, ZREM and ZSCORE, and of [Cancels] SET, DEL and
// EXISTS, on keys that begin with the prefix.
//
// The time is that of the server. Members' clocks do not matter.
//
// # How near, and how soon again
//
// A call has 20 ms, for one round trip: a server is of use up to about 15 ms away.
// With a connection that must be made first it takes more than that. This is done
// beside the calls, once a call ran out of time, so that a distant server is joined a
// period or two later than one nearby.
//
// A server that answers nothing, being frozen or behind a network that swallows
// what is said, is tried by one new connection each period, for about three seconds,
// and then once in half a second to a second, at random, and so is one that answers
// too late each time. It is found again
//
//   - within two periods, of 200 to 300 ms, where it was away for up to three seconds,
//     or was stopped and goes on;
//   - within a second and a half otherwise.
//
// A server that refuses connections is asked once a period. The two settings of
// dialling above keep the client from standing in the way: by its defaults a dial into
// the void takes five times five seconds. After as many failed dials as it may have
// connections, go-redis looks by itself once a second, and until then a server that
// was down is not found.
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
