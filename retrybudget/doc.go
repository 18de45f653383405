// Package retrybudget caps retries and hedges by credit: successful calls earn
// it, each retry or hedge spends it, and a small floor keeps a quiet caller
// able to retry at all. When a target fails, the credit runs out and the
// retries stop, so they cannot become the load that keeps the target down.
// Several processes can share one budget for one target.
//
// It knows nothing of scopes; a hedge asks it through an interface of its own.
//
// Nothing is exported yet.
package retrybudget
