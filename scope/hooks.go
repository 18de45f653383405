//go:build !curfew_nohooks

package scope

// hooks says whether scopes look for somebody who looks on. The build without is
// the twin that BenchmarkGo is compared with, by make twin: what nobody uses must
// cost nothing.
const hooks = true
