// Package curfewhttp carries a deadline over HTTP, with net/http alone.
//
// Every request says how much time is left, in X-Request-Deadline-Ms. On the
// server [Handler] reads it, never grants more than the route's maximum, and
// refuses a request that has no time left before any work is done: under
// overload that is load shed for free. At the deadline it answers 504, also in
// place of a handler that does not look at its context. On the client [Transport]
// sends what is left of its request's context, less what the hop keeps for itself,
// and refuses locally when nothing is left to send.
//
//	mux.Handle("/order", curfewhttp.Handler(order, curfewhttp.Config{Max: 3 * time.Second}))
//	client := &http.Client{Transport: &curfewhttp.Transport{}}
//
// A handler opens its scope on the request's context with [budget.Inherited], and
// answers for its error with [Error]:
//
//	err := scope.Run(r.Context(), "order", budget.Inherited(), func(ctx context.Context, s *scope.Scope) error {
//		...
//	})
//	if err != nil {
//		curfewhttp.Error(w, r, err)
//		return
//	}
//
// A failure is answered with problem details (RFC 9457). Its status is that of its
// kind: 503 for what was not begun and may be sent again, 504 for what had begun when
// time ran out, 400 for a malformed header, 408 for a body that did not come in time,
// and 499, which only logs see, for a client that left. None invites a retry with
// Retry-After: the caller's budget is gone, or not long enough.
//
// A Transport with a Budget repeats what failed and may be repeated, and with Hedge
// sends what is slow once more; only the layer next to the fault does, and says so to
// those above. [CheckResponse] turns a failing response into a cause, [Do] makes a call
// that states its limit, and a [Dialer] ends what net/http would let run on.
//
// Responses that go on, such as server-sent events and WebSockets, take a [Stream];
// a [Queue] lets requests wait for their turn no longer than they have time.
package curfewhttp
