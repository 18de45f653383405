// Package curfewhttp carries a deadline over HTTP, with net/http alone.
//
// Every request says how much time is left, in X-Request-Deadline-Ms. On the
// server [Handler] reads it, never grants more than the route's maximum, and
// refuses a request that has no time left before any work is done: under
// overload that is load shed for free. On the client [Transport] sends what is
// left of its request's context, less what the hop keeps for itself, and
// refuses locally when nothing is left to send.
//
//	mux.Handle("/order", curfewhttp.Handler(order, curfewhttp.Config{Max: 3 * time.Second}))
//	client := &http.Client{Transport: &curfewhttp.Transport{}}
//
// A handler opens its scope on the request's context with [budget.Inherited]:
//
//	err := scope.Run(r.Context(), "order", budget.Inherited(), func(ctx context.Context, s *scope.Scope) error {
//		...
//	})
package curfewhttp
