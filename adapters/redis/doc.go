// Package curfewredis keeps the shared part of a fleet's retry budget in Redis:
// one script call per member and period, safe to repeat, and never in the way
// of a first attempt when Redis is slow or gone. It is a module of its own, so
// that only those who use go-redis depend on it.
//
// Nothing is exported yet.
package curfewredis
