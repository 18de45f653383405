// Package plan shares one budget out over a tree of calls before any of them
// starts: what each call is worth, which of them run one after another and
// which side by side, and what must be left for the work after them. It
// answers early that a tree cannot fit, rather than letting its last call
// find out.
//
// Nothing is exported yet.
package plan
