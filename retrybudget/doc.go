// Package retrybudget caps retries and hedges by credit: successful calls earn
// it, each retry or hedge spends it, and a small floor keeps a quiet caller
// able to retry at all.
//
// # Why not a number of attempts
//
// "Three attempts" bounds one call and nothing else. Take 1000 calls a second
// to a target of which some fail, each tried up to three times, beside a budget
// of a tenth of the successes and a floor of one a second:
//
//	failing    three attempts     with the budget
//	   1 %     1010 calls/s       1010 calls/s
//	  50 %     1750 calls/s       1054 calls/s
//	 100 %     3000 calls/s       1001 calls/s
//
// (The test TestTheNumbersOfThePackageComment counts them.) The attempt count
// helps least where it costs most: it triples the load of a target that answers
// nobody, and three layers that each do so make 27 calls of one. The budget
// lets the odd failure be retried, as most failures are, and takes the retries
// away exactly when the target has no room for them, because a target that
// fails earns its callers nothing.
//
// # Use
//
// There are two verbs. A [Budget] says how much is allowed, one for each
// target, shared by everybody who calls it; [Do] makes the calls:
//
//	var payments = retrybudget.New("payments", retrybudget.Config{})
//
//	err := retrybudget.Do(ctx, payments, retrybudget.Policy{Idempotent: true}, charge)
//
// Hedges spend from the same budget, through [Budget.Hedges]. Targets whose
// names come from outside belong into a [Set].
//
// # Hedges
//
// A target that becomes slow is hedged by everybody at once, and credit from the
// time when it was fast would pay for that. So hedges save up little of it. Of 3000
// calls a second, which become 750 because the target takes four times as long, and
// all of which then ask for a hedge, these are hedged in the worst second, beside a
// budget of a tenth and without a floor:
//
//	if hedges spent what retries do              100 %
//	by default, what a second earned              50 %
//	with a HedgeBurst of 5                      10.6 %
//	with a HedgeBurst of 5 and a Ratio of 0.09   9.7 %
//
// (TestTheHedgesAfterAStepAreThoseOfThePackageComment counts them.) Where hedges
// are to keep to a share of every second, give them a HedgeBurst that is a small part
// of that share, and lower the Ratio by it:
//
//	// Hedges are at most a tenth of any second with 800 calls or more: 72, 5, and 3 of the floor.
//	var search = retrybudget.New("search", retrybudget.Config{Ratio: 0.09, HedgeBurst: 5})
//
// What it costs while the target is well is that some calls are refused a hedge when
// many want one at the same time: the suite tail of bench has the figures.
//
// # Attempts and layers
//
// A [Policy] counts attempts and not retries. "Three retries" is four attempts,
// and half of those who read it take it for three; it is attempts that the
// target sees, that share the deadline, and that multiply from layer to layer.
//
// One layer retries: the innermost, which knows best what failed. Its errors say
// so (RetriedBelow), and a Do further out does not repeat them.
//
// # A fleet
//
// With a [Pool] the Budgets of all processes are one: a thousand of them have one
// floor together and not a thousand, and what one has too much of another one
// spends. [Config] says how, package curfewredis has a Pool in Redis. Nobody waits
// for it but a retry that found nothing here and has its backoff to wait for: for
// 20 ms, which is the time of a call. A Pool that is slower than that, or gone, is
// asked again each quarter of a second, and until it answers every process lives on
// what it earns. [Stats].Fleet tells how that is.
package retrybudget
