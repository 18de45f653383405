package main

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"image/color"
	"os"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><title>The retries of a fleet</title>
<style>body{font:15px sans-serif;max-width:60em;margin:2em auto;padding:0 1em}td,th{padding:.2em 1em;text-align:right}svg{max-width:100%;height:auto}</style>
<h1>The retries of a fleet</h1>
<p>{{.Processes}} processes, {{.Rate}} calls a second together, {{.Failing}} of which the service fails. Each kind has the same calls to make.</p>
<table><tr><th>kind<th>load of the service, for each call wanted</tr>
{{range .Rows}}<tr><td><span style="color:{{.Color}}">■</span> {{.Kind}}<td>{{printf "%.3f" .Load}}</tr>
{{end}}</table>
{{.Plot}}
</html>
`))

var colors = []color.RGBA{{R: 0xc0, G: 0x39, B: 0x2b, A: 0xff}, {R: 0xb7, G: 0x79, B: 0x1f, A: 0xff}, {R: 0x1a, G: 0x7f, B: 0x5a, A: 0xff}}

// writePage writes one file that needs nothing from elsewhere.
func (p *past) writePage(s settings) error {
	type row struct {
		Kind  string
		Color template.CSS
		Load  float64
	}
	var rows []row
	for i, kind := range kinds {
		c := colors[i]
		rows = append(rows, row{kind, template.CSS(fmt.Sprintf("rgb(%d,%d,%d)", c.R, c.G, c.B)), p.load(i)})
	}
	svg, err := p.plot()
	if err != nil {
		return err
	}
	var out bytes.Buffer
	err = page.Execute(&out, map[string]any{
		"Processes": s.processes, "Rate": s.rate, "Failing": s.failing, "Rows": rows, "Plot": svg,
	})
	if err != nil {
		return err
	}
	return os.WriteFile(s.page, out.Bytes(), 0o644)
}

// plot draws the retries of each second.
func (p *past) plot() (template.HTML, error) {
	f := plot.New()
	f.X.Label.Text, f.Y.Label.Text = "second", "retries per second"
	f.X.Min, f.Y.Min = 0, 0
	f.Add(plotter.NewGrid())
	for kind, retries := range p.retries {
		points := make(plotter.XYs, len(retries))
		for i, n := range retries {
			points[i].X, points[i].Y = float64(i+1), float64(n)
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return "", err
		}
		line.Color, line.Width = colors[kind], vg.Points(1.8)
		f.Add(line)
	}
	c := vgsvg.NewWith(vgsvg.UseWH(10*vg.Inch, 4*vg.Inch))
	f.Draw(draw.New(c))
	var out strings.Builder
	if _, err := c.WriteTo(&out); err != nil {
		return "", err
	}
	_, element, found := strings.Cut(out.String(), "<svg")
	if !found {
		return "", errors.New("no svg element in what the plotter wrote")
	}
	return template.HTML("<svg" + element), nil
}
