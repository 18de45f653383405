package bench

import (
	"encoding/xml"
	"fmt"
	"html"
	"math"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// drawing is a chart as it stands in a page.
type drawing struct {
	ViewBox string `xml:"viewBox,attr"`
	Texts   []struct {
		Class  string  `xml:"class,attr"`
		Anchor string  `xml:"text-anchor,attr"`
		X      float64 `xml:"x,attr"`
		Y      float64 `xml:"y,attr"`
		Text   string  `xml:",chardata"`
	} `xml:"text"`
	Bars []struct {
		X    float64 `xml:"x,attr"`
		Y    float64 `xml:"y,attr"`
		Long float64 `xml:"width,attr"`
		High float64 `xml:"height,attr"`
	} `xml:"rect"`
}

var (
	anyChart = regexp.MustCompile(`(?s)<svg class="bars".*?</svg>`)
	anyRow   = regexp.MustCompile(`(?m)^<tr[^>]*><td>(met|MISSED|not measured)<td>.*$`)
)

func pageOf(t *testing.T, about About, results ...Result) string {
	t.Helper()
	var out strings.Builder
	require.NoError(t, WriteHTML(&out, about, results))
	return out.String()
}

func drawings(t *testing.T, page string) []drawing {
	t.Helper()
	var all []drawing
	for _, text := range anyChart.FindAllString(page, -1) {
		var d drawing
		require.NoError(t, xml.Unmarshal([]byte(text), &d))
		all = append(all, d)
	}
	return all
}

// invented are results of all cases, with figures that differ by up to 10,000 times.
func invented() []Result {
	var all []Result
	for _, s := range Suites() {
		for _, c := range s.Cases(Scale{}) {
			r := Result{Suite: s.Name, Case: c, Rounds: 1, Series: map[string]map[string]Series{}}
			for i, system := range c.Systems {
				r.Series[system.Name] = map[string]Series{c.main(): {{123.4 * math.Pow(10, float64(i*3%5))}}}
			}
			all = append(all, r)
		}
	}
	return all
}

func TestEverySystemHasItsNameItsBarAndItsValueInsideTheChart(t *testing.T) {
	const letter = 8 // more than a letter of 14 units takes in the mean
	results := invented()
	page := pageOf(t, About{}, results...)
	charts := drawings(t, page)
	require.Len(t, charts, len(results))
	assert.Equal(t, len(charts)+1, strings.Count(page, "<svg"), "and the curve of overload")
	for i, r := range results {
		d, n := charts[i], len(r.Case.Systems)
		where := r.Suite + ": " + r.Case.Name
		require.Len(t, d.Bars, n, where)
		require.Len(t, d.Texts, 2*n, where)
		var width, height float64
		_, err := fmt.Sscanf(d.ViewBox, "0 0 %f %f", &width, &height)
		require.NoError(t, err)
		below, longest := 0.0, 0.0
		for j, s := range r.Case.Systems {
			bar, name, value := d.Bars[j], d.Texts[2*j], d.Texts[2*j+1]
			main := r.Case.main()
			assert.Equal(t, s.Name, name.Text, where)
			assert.Equal(t, barValue(main, r.Of(s.Name, main)), value.Text, where)

			assert.Equal(t, "end", name.Anchor)
			assert.GreaterOrEqual(t, name.X-letter*float64(utf8.RuneCountInString(name.Text)), 0.0, "%s: %s", where, name.Text)
			assert.Less(t, name.X, bar.X)
			assert.Less(t, bar.X+bar.Long, value.X)
			assert.LessOrEqual(t, value.X+letter*float64(utf8.RuneCountInString(value.Text)), width, "%s: %s", where, value.Text)

			assert.GreaterOrEqual(t, bar.Y, below, "a bar covers the one above it")
			below = bar.Y + bar.High
			for _, text := range []float64{name.Y, value.Y} {
				assert.Greater(t, text, bar.Y)
				assert.Less(t, text, below)
			}
			longest = max(longest, bar.Long)
		}
		assert.LessOrEqual(t, below, height, where)
		assert.Greater(t, longest, width/2, where)
	}
}

func TestABarIsAsLongAsItsFigureIsGreat(t *testing.T) {
	bars := sample(4).bars().Bars // 4, 8 and 3
	require.Len(t, bars, 3)
	assert.InDelta(t, bars[1].Long/2, bars[0].Long, .1)
	assert.InDelta(t, bars[1].Long*3/8, bars[2].Long, .1)
	assert.NotEqual(t, bars[0].Color, bars[1].Color, "curfew's bar is not like the others")
}

func TestASystemThatWasNotMeasuredHasNoBar(t *testing.T) {
	for _, none := range []float64{math.NaN(), math.Inf(1)} {
		bars := sample(none).bars().Bars
		require.Len(t, bars, 2)
		assert.Equal(t, "peer", bars[0].Name)
	}
	assert.Nil(t, Result{Case: sample(1).Case}.bars())
	assert.NotContains(t, pageOf(t, About{}, Result{Suite: "s", Case: sample(1).Case}), "<svg")
}

func TestFiguresOfZeroHaveNoLengthAndAValue(t *testing.T) {
	r := sample(0)
	r.Case.Systems = r.Case.Systems[:1]
	bars := r.bars().Bars
	require.Len(t, bars, 1)
	assert.Zero(t, bars[0].Long)
	assert.Equal(t, "0 ns", bars[0].Value)
}

func TestAValueHasItsUnitAndNotTheNameOfItsMetric(t *testing.T) {
	for metric, want := range map[string]string{
		"ns/op": "1.50 ns", "returned-ns": "1.50 ns", "p99-ms": "1.50 ms", "goodput-%": "1.50%",
		"load": "1.50", "factor": "1.50", "in-flight": "1.50", "calls-mean": "1.50", "ignored": "1.50 tasks",
	} {
		assert.Equal(t, want, barValue(metric, 1.5), metric)
	}
}

func TestTheCaptionSaysWhichWayIsBetterUnlessTheSystemsAreNoRivals(t *testing.T) {
	r := sample(4)
	assert.Equal(t, "ns/op, less is better", r.bars().Caption)
	r.Case.More = true
	assert.Equal(t, "ns/op, more is better", r.bars().Caption)
	r.Case.Alone = true
	assert.Equal(t, "ns/op", r.bars().Caption)
}

func TestThePageSaysTheLoadWhereItIsKnown(t *testing.T) {
	assert.Contains(t, pageOf(t, About{Load: "2.41"}, sample(4)), "load average 2.41 as it began")
	assert.NotContains(t, pageOf(t, About{}, sample(4)), "load average")
}

func TestThePageBeginsTheLineOfEachBoundWithItsVerdict(t *testing.T) {
	r := sample(4)
	q := requirements[0]
	r.Suite, r.Case.Name = q.Suite, q.Case
	r.Case.Bounds = append(r.Case.Bounds, Bound{System: "curfew", Kind: AtMost, Limit: 3}, Bound{System: "none", Kind: AtMost, Limit: 3})
	page := pageOf(t, About{}, r)
	rows := anyRow.FindAllStringSubmatch(page, -1)
	require.Len(t, rows, len(r.Case.Bounds))
	for i, want := range []string{"met", "met", "met", "MISSED", "not measured"} {
		assert.Equal(t, want, rows[i][1])
		assert.Equal(t, want == "MISSED", strings.Contains(rows[i][0], `class="missed"`), rows[i][0])
		assert.Contains(t, html.UnescapeString(rows[i][0]), r.Case.Bounds[i].String())
	}
	var text strings.Builder
	_, _, err := WriteBounds(&text, []Result{r})
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	assert.Contains(t, page, "<p>"+lines[len(lines)-1]+"</p>", "both reports count alike")
	assert.NotContains(t, pageOf(t, About{}, sample(4)), "<h2>Bounds", "no bound, no table")
}
