package bench

import (
	"bytes"
	"fmt"
	"html/template"
	"image/color"
	"io"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

var page = template.Must(template.New("report").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><title>curfewbench</title>
<style>body{font:15px sans-serif;max-width:72em;margin:2em auto;padding:0 1em}pre{overflow-x:auto;background:#f5f5f5;padding:1em}svg{max-width:100%;height:auto}</style>
<h1>curfewbench</h1>
<p>{{.About.Machine}}<br>{{.About.Go}}<br>commit {{.About.Commit}}<br>{{.About.Date}}{{if .About.Quick}}<br>a quick run: a look, not a measurement{{end}}</p>
<p>Medians of rounds in which the systems take turns; ratios are taken within a round. 32 MiB of live heap are held.</p>
{{if .Bounds}}<h2>Bounds</h2>
<pre>{{.Bounds}}</pre>
{{end}}{{range .Suites}}<h2>{{.Title}}</h2>
<p>{{.About}}</p>
{{.Plot}}{{range .Cases}}<h3>{{.Title}}</h3>
{{.Plot}}<pre>{{.Table}}</pre>
{{end}}{{end}}</html>
`))

// A section of the page is a suite, or a case of one.
type section struct {
	Title, About, Table string
	Plot                template.HTML
	Cases               []section
}

// WriteHTML writes a page of all results with a plot for each. The plots are SVG in
// the page itself: it needs nothing from elsewhere.
func WriteHTML(w io.Writer, about About, results []Result) error {
	var bounds bytes.Buffer
	if _, _, err := WriteBounds(&bounds, results); err != nil {
		return err
	}
	var parts []section
	for i, r := range results {
		if i == 0 || r.Suite != results[i-1].Suite {
			curve, err := overloadCurve(r.Suite, results)
			if err != nil {
				return err
			}
			parts = append(parts, section{Title: r.Suite, About: aboutSuite(r.Suite), Plot: curve})
		}
		var table bytes.Buffer
		if err := r.WriteTable(&table); err != nil {
			return err
		}
		bars, err := r.bars()
		if err != nil {
			return err
		}
		suite := &parts[len(parts)-1]
		suite.Cases = append(suite.Cases, section{Title: r.Case.Name, Table: table.String(), Plot: bars})
	}
	return page.Execute(w, struct {
		About  About
		Bounds string
		Suites []section
	}{about, bounds.String(), parts})
}

func aboutSuite(name string) string {
	for _, s := range suites {
		if s.Name == name {
			return s.About
		}
	}
	return ""
}

// bars draws the main figure of each system that was measured.
func (r Result) bars() (template.HTML, error) {
	p := plot.New()
	p.Y.Label.Text = r.Case.main()
	p.Y.Min = 0
	var values plotter.Values
	var names []string
	for _, s := range r.Case.Systems {
		if v := r.Of(s.Name, r.Case.main()); !math.IsNaN(v) { // plotter refuses NaN
			values, names = append(values, v), append(names, s.Name)
		}
	}
	if len(values) == 0 {
		return "", nil
	}
	bars, err := plotter.NewBarChart(values, vg.Points(40))
	if err != nil {
		return "", err
	}
	bars.Color = color.RGBA{R: 0x4a, G: 0x7f, B: 0xb5, A: 0xff}
	p.Add(bars)
	p.NominalX(names...)
	return svg(p)
}

// overloadCurve draws what the cases of the suite overload have in common: goodput over
// offered load. Of another suite it draws nothing.
func overloadCurve(suite string, results []Result) (template.HTML, error) {
	if suite != "overload" {
		return "", nil
	}
	curves := map[string]plotter.XYs{}
	for _, r := range results {
		var load float64
		if _, err := fmt.Sscanf(r.Case.Name, overloadName, &load); r.Suite != suite || err != nil {
			continue
		}
		for name := range r.Series {
			if v := r.Of(name, r.Case.main()); !math.IsNaN(v) {
				curves[name] = append(curves[name], plotter.XY{X: 100 * load, Y: v})
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
