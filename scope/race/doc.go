// Package race runs several attempts at one answer and returns as soon as it
// is decided: the first good one, a quorum, or a hedge that starts a second
// attempt when the first is slow. The losers are cancelled and stay owned by
// the scope that started them, which returns only after they have ended, and
// a result that comes too late is handed over for disposal exactly once.
//
// Nothing is exported yet.
package race
