//go:build curfew_nohooks

package scope

const hooks = false
