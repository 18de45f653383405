package main

import "time"

// A pace converts between incident time, in which every constant and every figure is given, and the
// real time of a run. A pace of 10 replays ten seconds of the incident in one.
type pace float64

// real returns how long d of the incident takes in this run.
func (p pace) real(d time.Duration) time.Duration { return time.Duration(float64(d) / float64(p)) }

// incident returns how much incident time passes while the run takes d.
func (p pace) incident(d time.Duration) time.Duration { return time.Duration(float64(d) * float64(p)) }

// A stopwatch tells how much incident time has passed since the run began.
type stopwatch struct {
	began time.Time
	pace  pace
}

func (w stopwatch) now() time.Duration { return w.pace.incident(time.Since(w.began)) }

// timeOf returns the real instant at which the incident reaches at.
func (w stopwatch) timeOf(at time.Duration) time.Time { return w.began.Add(w.pace.real(at)) }
