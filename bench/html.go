package bench

import (
	"bytes"
	"fmt"
	"html/template"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

var page = template.Must(template.New("report").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>curfewbench</title>
<style>body{font:15px sans-serif;max-width:72em;margin:2em auto;padding:0 1em}pre{overflow-x:auto;background:#f5f5f5;padding:1em;font-size:13px}
svg{max-width:100%;height:auto;font-family:sans-serif}td,th{text-align:left;vertical-align:top;padding:.2em 1em .2em 0}.missed{color:#b00020;font-weight:bold}</style>
<h1>curfewbench</h1>
<p>{{.About.Machine}}<br>{{.About.Go}}<br>commit {{.About.Commit}}<br>{{.About.Date}}{{if .About.Load}}<br>load average {{.About.Load}} as it began{{end}}{{if .About.Quick}}<br>a quick run: a look, not a measurement{{end}}</p>
<p>Medians of rounds in which the systems take turns; ratios are taken within a round. 32 MiB of live heap are held.</p>
{{if .Bounds}}<h2>Bounds</h2>
<table class="bounds"><tr><th>verdict<th>suite<th>case<th>bound<th>measured
{{range .Bounds}}<tr{{if .Missed}} class="missed"{{end}}><td>{{.Verdict}}<td>{{.Suite}}<td>{{.Case}}<td>{{.Bound}}<td>{{.Figure}}
{{end}}</table>
<p>{{.Sum}}</p>
{{end}}{{range .Suites}}<h2>{{.Title}}</h2>
<p>{{.About}}</p>
{{.Curve}}{{range .Cases}}<h3>{{.Title}}</h3>
{{with .Bars}}<p>{{.Caption}}</p>
<svg class="bars" viewBox="0 0 {{.Width}} {{.Height}}" width="{{.Width}}" height="{{.Height}}" font-size="14">
{{range .Bars}}<text class="name" x="{{.NameEnd}}" y="{{.Base}}" text-anchor="end">{{.Name}}</text><rect x="{{.X}}" y="{{.Y}}" width="{{.Long}}" height="{{.High}}" fill="{{.Color}}"/><text class="value" x="{{.ValueAt}}" y="{{.Base}}">{{.Value}}</text>
{{end}}</svg>
{{end}}<pre>{{.Table}}</pre>
{{end}}{{end}}</html>
`))

// A section of the page is a suite, or a case of one.
type section struct {
	Title, About, Table string
	Curve               template.HTML
	Bars                *chart
	Cases               []section
}

// A boundRow is a line of the table of bounds. The verdict is its first column, where
// no width of a window hides it.
type boundRow struct {
	Verdict, Suite, Case, Bound, Figure string
	Missed                              bool
}

// WriteHTML writes a page of all results with a plot for each. The plots are SVG in
// the page itself: it needs nothing from elsewhere.
func WriteHTML(w io.Writer, about About, results []Result) error {
	bounds, sum := boundRows(results)
	var parts []section
	for i, r := range results {
		if i == 0 || r.Suite != results[i-1].Suite {
			curve, err := overloadCurve(r.Suite, results)
			if err != nil {
				return err
			}
			parts = append(parts, section{Title: r.Suite, About: aboutSuite(r.Suite), Curve: curve})
		}
		var table bytes.Buffer
		if err := r.WriteTable(&table); err != nil {
			return err
		}
		suite := &parts[len(parts)-1]
		suite.Cases = append(suite.Cases, section{Title: r.Case.Name, Table: table.String(), Bars: r.bars()})
	}
	return page.Execute(w, struct {
		About  About
		Bounds []boundRow
		Sum    string
		Suites []section
	}{about, bounds, sum, parts})
}

// boundRows are the bounds in the order of WriteBounds, and its last line.
func boundRows(results []Result) (rows []boundRow, sum string) {
	all := boundsOfAll(results)
	for _, b := range all {
		rows = append(rows, boundRow{b.verdict(), b.Suite, b.Case.Name, b.Finding.String(), b.figure(), b.verdict() == "MISSED"})
	}
	_, _, sum = sumOf(all)
	return rows, sum
}

func aboutSuite(name string) string {
	for _, s := range suites {
		if s.Name == name {
			return s.About
		}
	}
	return ""
}

// What a chart is laid out in, in units of its view box. Every browser has its own font:
// names end where bars begin and values begin where their bars end, so that no width of a
// letter needs to be known, and there is room for the longest of both.
const (
	chartWidth = 900
	nameRoom   = 200
	valueRoom  = 120
	barGap     = 8
	rowHeight  = 26
	barHeight  = 18
)

// A chart has a bar for each system of a case that was measured.
type chart struct {
	Caption       string
	Width, Height int
	Bars          []bar
}

type bar struct {
	Name, Value, Color        string
	NameEnd, X, ValueAt, Long float64
	Y, High, Base             int
}

// bars are of the main figure, as long as it is great: lengths begin at zero and are
// not logarithms, so that twice the length is twice the figure. One too short to see
// still has its value beside it. It is nil where nothing was measured.
func (r Result) bars() *chart {
	main := r.Case.main()
	c := &chart{Caption: main, Width: chartWidth}
	switch {
	case r.Case.Alone: // the figure may be no cost
	case r.Case.More:
		c.Caption += ", more is better"
	default:
		c.Caption += ", less is better"
	}
	var values []float64
	most := 0.0
	for _, s := range r.Case.Systems {
		v := r.Of(s.Name, main)
		if math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		b := bar{Name: s.Name, Value: barValue(main, v), Color: "#9aa5b1", NameEnd: nameRoom - barGap, X: nameRoom, High: barHeight}
		if isOurs(s.Name) {
			b.Color = "#2f6fb0"
		}
		b.Y = len(c.Bars)*rowHeight + (rowHeight-barHeight)/2
		b.Base = b.Y + barHeight - 4 // letters of 14 in a bar of 18
		c.Bars = append(c.Bars, b)
		values = append(values, v)
		most = max(most, v)
	}
	if len(c.Bars) == 0 {
		return nil
	}
	c.Height = len(c.Bars) * rowHeight
	for i := range c.Bars {
		b := &c.Bars[i]
		if most > 0 {
			b.Long = max(0, math.Round((chartWidth-nameRoom-valueRoom)*values[i]/most*10)/10)
		}
		b.ValueAt = b.X + b.Long + barGap
	}
	return c
}

// barValue is a figure with its unit and without the name of the metric, which is the
// chart's.
func barValue(metric string, v float64) string {
	u := unit(metric)
	return strings.TrimPrefix(withUnit(Line{Metric: u, Value: v, Unit: u}), u+" ")
}

// overloadCurve draws what the cases of the suite overload have in common: goodput over
// offered load. Of another suite it draws nothing.
func overloadCurve(suite string, results []Result) (template.HTML, error) {
	if suite != "overload" {
		return "", nil
	}
	curves := map[string]plotter.XYs{}
	most := 0.0
	for _, r := range results {
		var load float64
		if _, err := fmt.Sscanf(r.Case.Name, overloadName, &load); r.Suite != suite || err != nil {
			continue
		}
		for name := range r.Series {
			if v := r.Of(name, r.Case.main()); !math.IsNaN(v) {
				curves[name] = append(curves[name], plotter.XY{X: 100 * load, Y: v})
				most = max(most, v)
			}
		}
	}
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text = "offered load, % of capacity", "goodput, % of capacity"
	p.X.Min, p.Y.Min = 0, 0
	p.Legend.Top = true
	var args []any
	for _, name := range slices.Sorted(maps.Keys(curves)) {
		args = append(args, name, curves[name])
	}
	if len(args) == 0 {
		return "", nil
	}
	if err := plotutil.AddLinePoints(p, args...); err != nil {
		return "", err
	}
	p.Y.Max = max(1.35*most, 1) // the legend stands above the curves
	return svg(p)
}

// svg is the plot as it stands in a page.
func svg(p *plot.Plot) (template.HTML, error) {
	canvas := vgsvg.New(18*vg.Centimeter, 7*vg.Centimeter)
	p.Draw(draw.New(canvas))
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return "", err
	}
	text := out.Bytes()
	if i := bytes.Index(text, []byte("<svg")); i > 0 { // the XML head has no place in HTML
		text = text[i:]
	}
	return template.HTML(text), nil
}
