package main

import "time"

// bucketLength is how much of the incident one point of a plot stands for.
const bucketLength = 4 * time.Second

// A bucket is what happened to the users who arrived within one bucketLength, and to the warehouse in
// that time. Nobody arrived in an empty one.
type bucket struct {
	middle       time.Duration
	load         float64 // arrivals at the warehouse over the mean of the healthy phase
	availability float64
	p50, p99     time.Duration
}

func timeline(rec *recording) []bucket {
	var (
		n         = int(rec.plan.length() / bucketLength)
		buckets   = make([]bucket, n)
		latencies = make([][]time.Duration, n)
		bought    = make([]int, n)
		healthy   = perSecond(rec.arrivals, 0, rec.plan.healthy)
	)
	for _, u := range rec.users {
		i := min(int(u.arrived/bucketLength), n-1)
		latencies[i] = append(latencies[i], u.latency())
		if u.outcome == outcomeBought {
			bought[i]++
		}
	}
	for i := range buckets {
		from := time.Duration(i) * bucketLength
		b := bucket{
			middle:       from + bucketLength/2,
			availability: ratio(bought[i], len(latencies[i])),
			p50:          percentile(latencies[i], 50),
			p99:          percentile(latencies[i], 99),
		}
		if healthy > 0 {
			b.load = perSecond(rec.arrivals, from, from+bucketLength) / healthy
		}
		buckets[i] = b
	}
	return buckets
}
