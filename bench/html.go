package bench

import (
	"bytes"
	"html/template"
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// About describes a run: where it took place and of what.
type About struct{ Machine, Go, Commit, Date string }

var page = template.Must(template.New("report").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><title>curfewbench</title>
<style>body{font:15px sans-serif;max-width:60em;margin:2em auto;padding:0 1em}pre{overflow-x:auto;background:#f5f5f5;padding:1em}svg{max-width:100%;height:auto}</style>
<h1>curfewbench</h1>
<p>{{.About.Machine}}<br>{{.About.Go}}<br>commit {{.About.Commit}}<br>{{.About.Date}}</p>
<p>Medians of rounds in which the systems take turns; ratios are taken within a round. 32 MiB of live heap are held.</p>
{{range .Parts}}<h2>{{.Title}}</h2>
{{.Plot}}<pre>{{.Table}}</pre>
{{end}}</html>
`))

// WriteHTML writes a page of all results with a plot for each. The plots are SVG in
// the page itself: it needs nothing from elsewhere.
func WriteHTML(w io.Writer, about About, results []Result) error {
	type part struct {
		Title, Table string
		Plot         template.HTML
	}
	var parts []part
	for _, r := range results {
		var table bytes.Buffer
		if err := r.WriteTable(&table); err != nil {
			return err
		}
		svg, err := r.plot()
		if err != nil {
			return err
		}
		parts = append(parts, part{r.Suite + ": " + r.Case.Name, table.String(), template.HTML(svg)})
	}
	return page.Execute(w, struct {
		About About
		Parts []part
	}{about, parts})
}

// plot draws the main figure of each system as a bar.
func (r Result) plot() (string, error) {
	p := plot.New()
	p.Y.Label.Text = r.Case.main()
	p.Y.Min = 0
	var values plotter.Values
	var names []string
	for _, s := range r.Case.Systems {
		v := r.Of(s.Name, r.Case.main())
		if v != v { // nothing was measured: plotter refuses NaN
			v = 0
		}
		values, names = append(values, v), append(names, s.Name)
	}
	bars, err := plotter.NewBarChart(values, vg.Points(40))
	if err != nil {
		return "", err
	}
	p.Add(bars)
	p.NominalX(names...)
	canvas := vgsvg.New(18*vg.Centimeter, 7*vg.Centimeter)
	p.Draw(draw.New(canvas))
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return "", err
	}
	svg := out.Bytes()
	if i := bytes.Index(svg, []byte("<svg")); i > 0 { // the XML head has no place in HTML
		svg = svg[i:]
	}
	return string(svg), nil
}
