package meter

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// maxSeries bounds what a Memory keeps, so that a label that takes ever new
// values cannot fill the process's memory.
const maxSeries = 10_000

// A Memory is a Recorder that keeps sums. The zero Memory is ready to use, and
// many goroutines may share it. It keeps the first 10,000 combinations of names
// and labels and drops what comes under others, which Dropped counts.
type Memory struct {
	mu      sync.Mutex
	series  map[string]*series
	dropped int64
}

type series struct {
	name   string
	labels []Label
	count  int64
	sum    float64
}

// Add implements Recorder.
func (m *Memory) Add(name string, n int64, labels ...Label) { m.keep(name, labels, n, 0) }

// Record implements Recorder.
func (m *Memory) Record(name string, value float64, labels ...Label) {
	m.keep(name, labels, 1, value)
}

func (m *Memory) keep(name string, labels []Label, n int64, value float64) {
	key := key(name, labels)
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.series[key]
	if s == nil {
		if len(m.series) == maxSeries {
			m.dropped++
			return
		}
		if m.series == nil {
			m.series = make(map[string]*series)
		}
		s = &series{name: name, labels: slices.Clone(labels)}
		m.series[key] = s
	}
	s.count += n
	s.sum += value
}

// Count returns how much was counted under name, or how many values were
// recorded, over all series that have each of labels.
func (m *Memory) Count(name string, labels ...Label) int64 {
	count, _ := m.total(name, labels)
	return count
}

// Sum returns the sum of the values that were recorded under name, over all
// series that have each of labels.
func (m *Memory) Sum(name string, labels ...Label) float64 {
	_, sum := m.total(name, labels)
	return sum
}

// Dropped returns how many counts and values found no room.
func (m *Memory) Dropped() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dropped
}

func (m *Memory) total(name string, labels []Label) (count int64, sum float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.series {
		if s.name != name {
			continue
		}
		missing := func(l Label) bool { return !slices.Contains(s.labels, l) }
		if slices.ContainsFunc(labels, missing) {
			continue
		}
		count += s.count
		sum += s.sum
	}
	return count, sum
}

// String returns one line for each series, sorted.
func (m *Memory) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(m.series)) {
		fmt.Fprintf(&text, "%s count=%d sum=%g\n", key, m.series[key].count, m.series[key].sum)
	}
	return text.String()
}

// key returns what tells a series from others: quoted, so that no value of a
// label can look like another label.
func key(name string, labels []Label) string {
	var text strings.Builder
	text.WriteString(name)
	for _, l := range labels {
		fmt.Fprintf(&text, " %s=%q", l.Key, l.Value)
	}
	return text.String()
}
