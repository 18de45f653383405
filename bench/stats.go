package bench

import (
	"math"
	"slices"
)

// Quantile returns the smallest value that at least the share q of the values, from
// 0 to 1, does not exceed, and NaN of none. It leaves values as they are.
func Quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

// Median returns the middle value, the mean of the two middle ones of an even
// number of values, and NaN of none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// A Series holds the samples of one metric of one system, one slice for each round.
type Series [][]float64

// All returns the samples of all rounds.
func (s Series) All() []float64 { return slices.Concat(s...) }

// medians is the median of each round.
func (s Series) medians() []float64 {
	m := make([]float64, len(s))
	for i, round := range s {
		m[i] = Median(round)
	}
	return m
}

// combine returns the median over the rounds of f of both series' medians there,
// with the least and the greatest. Rounds in which one has no sample are left out.
func combine(a, b Series, f func(x, y float64) float64) (mid, low, high float64) {
	var got []float64
	x, y := a.medians(), b.medians()
	for i := range min(len(x), len(y)) {
		if v := f(x[i], y[i]); !math.IsNaN(v) && !math.IsInf(v, 0) {
			got = append(got, v)
		}
	}
	return Median(got), Quantile(got, 0), Quantile(got, 1)
}

// RatioOf returns the median of the ratios a ÷ b within each round, the least and
// the greatest of them, and NaN where no round has both.
func RatioOf(a, b Series) (mid, low, high float64) {
	return combine(a, b, func(x, y float64) float64 { return x / y })
}
