// Package wire holds the text forms in which a deadline travels between
// processes, in headers of requests and of queued messages.
//
// One rule holds for every form: the receiver never gets more time than the
// sender had. The sender takes off what [Slush.Of] says, once per hop, and
// [Form.Format] rounds down; with less than a millisecond left it writes
// nothing, because zero and negative numbers mean opposite things to different
// receivers, and an omitted header means no limit to all of them. Parsing is
// strict: what a form does not allow is malformed, and never a guess.
//
// # Forms
//
//	GRPC()                              grpc-timeout: 99999999u (gRPC over HTTP/2)
//	YARPC()                             Context-TTL-MS: 300
//	Millis("X-Request-Deadline-Ms")     300, under any name
//	Millis("Connect-Timeout-Ms")        300, the form of the Connect protocol
//	Millis("X-Envoy-Expected-Rq-Timeout-Ms").ReverseZero()
//	                                    300, where 0 is no limit, as Envoy means it
//	EpochMillis(name, skew)             1700000000500;300 or 1700000000500
//	EpochNanos(name, skew)              1700000000000000000 1700000000300000000, as Finagle's
//	RequestStart("X-Request-Start")     t=1699999999960, when a proxy took the request in
//
// Zero means that the time has run out, in every form, unless ReverseZero was
// called on it. [Read] merges all that stands on one request to the strictest
// valid value, and says which header it was:
//
//	peer, err := wire.Read(r.Header.Values, time.Now(), wire.GRPC(), wire.Millis("X-Request-Deadline-Ms"))
//	if err != nil {
//		// malformed: answer 400 to a trusted peer; at an edge count it and go on
//	}
//	ctx, cancel, err := budget.Enter(r.Context(), peer.Limit(routeMaximum).Require(useful))
//
// What the peer asks for above the local maximum is clamped to it, and what is
// left below the useful minimum is refused, never raised.
//
// # Clocks
//
// Between services the time left travels, never an instant, because clocks
// differ. An instant is needed where nobody counts while the value waits, which
// is in a queue. The forms with an instant therefore take the limit of skew to
// believe in, and where the value says the time left as well, the two are
// compared: beyond the limit only the time left counts, and Peer.Skewed tells.
//
// NTP does not promise that two clocks agree. What a synchronized host may claim
// is an error of at most root delay ÷ 2 + root dispersion against its reference
// (RFC 5905, section 11.2 for the two variables, which travel in each packet by
// section 7.3), and that grows with the time since the last good answer. Two hosts
// differ by up to the sum of theirs. That bound assumes that the reference is
// right and that every clock drifts less than NTP supposes (15 ppm, RFC 5905,
// section 7.2): it does not hold for a virtual machine that was paused, for a clock
// that was stepped, or for servers that lie. The stratum says how many servers
// stand between a host and its reference; it says nothing about the error.
// Choose a limit of skew above the sum of both bounds as your hosts report them
// (chronyc tracking, ntpq -c rv), and alert on them.
//
// # Queues
//
// A [Consumer] handles queued messages that carry such an instant: it drops or
// dead-letters what is stale before any work, and acknowledges only what has been
// recorded.
package wire
