// Package plan shares one budget out over a tree of calls before any of them
// starts: what each call is worth, which of them run one after another and
// which side by side, and what must be left for the work after them. It answers
// early that a tree cannot fit, rather than letting its last call find out.
//
//	p, err := plan.Fit(plan.Call{
//		Name: "gateway", Timeout: 850 * time.Millisecond, Own: 30 * time.Millisecond, Parallel: true,
//		Calls: []plan.Call{
//			{Name: "auth", Timeout: 50 * time.Millisecond},
//			{Name: "product", Timeout: 400 * time.Millisecond},
//			{Name: "recommendations", Timeout: 200 * time.Millisecond, Optional: true},
//		},
//	}, wire.Slush{}.Of)
//
// A tree is plain data, so it belongs into a test or into the start of a
// program: [Fit] refuses what does not fit and gives the budget.Limit of each
// call, [Check] finds what is doubtful in settings that people made one by one,
// and [WorstCase] says what those settings cost when everything is slow. None
// of them measures anything: what was measured is in package latency.
//
// Functions here take trees as they are and do not change them. Sums and
// products that are too large for their type stay at its maximum.
package plan
