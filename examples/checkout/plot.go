package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"image/color"
	"os"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The plots are drawn by gonum/plot because it writes SVG: inlined in the page they need neither
// script nor network, and stay sharp in print.

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// writePage writes one HTML file with the table and the plots of both modes.
func writePage(file string, r report, before, curfew *recording) error {
	a, b := timeline(before), timeline(curfew)
	figures := []*figure{
		newFigure("Load on the warehouse", "× the healthy load", before.plan).logarithmic(1, 2, 5, 10, 20, 50).
			line("before", red, solid, a, func(b bucket) float64 { return b.load }).
			line("curfew", green, solid, b, func(b bucket) float64 { return b.load }),
		newFigure("Checkout latency", "seconds", before.plan).from(0).
			line("before, p99", red, solid, a, func(b bucket) float64 { return b.p99.Seconds() }).
			line("before, median", red, dashed, a, func(b bucket) float64 { return b.p50.Seconds() }).
			line("curfew, p99", green, solid, b, func(b bucket) float64 { return b.p99.Seconds() }).
			line("curfew, median", green, dashed, b, func(b bucket) float64 { return b.p50.Seconds() }).
			level("the budget", edgeBudget.Seconds()),
		newFigure("Availability", "% of checkouts", before.plan).from(0).to(100).
			line("before", red, solid, a, func(b bucket) float64 { return 100 * b.availability }).
			line("curfew", green, solid, b, func(b bucket) float64 { return 100 * b.availability }),
	}
	for _, f := range figures {
		if err := f.draw(); err != nil {
			return fmt.Errorf("drawing %q: %w", f.plot.Title.Text, err)
		}
	}
	rows := r.rows()
	var out bytes.Buffer
	err := page.Execute(&out, map[string]any{
		"Report": r, "Head": rows[0], "Rows": rows[1:], "Plots": figures,
		"Healthy": before.plan.healthy, "Degraded": before.plan.degraded,
		"Before": listFailures(r.Before.Failures, "none failed"),
		"Curfew": listFailures(r.Curfew.Failures, "none failed"),
	})
	if err != nil {
		return err
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
}

var (
	red   = color.RGBA{R: 0xc0, G: 0x39, B: 0x2b, A: 0xff}
	green = color.RGBA{R: 0x1a, G: 0x7f, B: 0x5a, A: 0xff}
	grey  = color.RGBA{R: 0x77, G: 0x77, B: 0x77, A: 0xff}

	solid  = stroke{css: "solid", width: vg.Points(1.8)}
	dashed = stroke{css: "dashed", width: vg.Points(1.8), dashes: []vg.Length{vg.Points(4), vg.Points(3)}}
	dotted = stroke{css: "dotted", width: vg.Points(1), dashes: []vg.Length{vg.Points(1), vg.Points(2)}}
)

// A stroke is how a line is drawn, in the plot and in the page's legend.
type stroke struct {
	css    string
	width  vg.Length
	dashes []vg.Length
}

// A figure is one plot over the time of the incident. Its methods return it, so that one expression
// says what it shows; the first error is kept until draw.
type figure struct {
	plot *plot.Plot
	plan plan
	err  error

	Legend []legend // in the page and not in the plot, where it would cover lines
	SVG    template.HTML
}

type legend struct{ Name, Color, Style string } // CSS

func newFigure(title, unit string, p plan) *figure {
	f := &figure{plot: plot.New(), plan: p}
	f.plot.Title.Text = title
	f.plot.X.Label.Text = "seconds"
	f.plot.Y.Label.Text = unit
	f.plot.X.Min, f.plot.X.Max = 0, p.length().Seconds()
	for _, style := range []*font.Font{
		&f.plot.Title.TextStyle.Font, &f.plot.X.Label.TextStyle.Font, &f.plot.Y.Label.TextStyle.Font,
		&f.plot.X.Tick.Label.Font, &f.plot.Y.Tick.Label.Font,
	} {
		style.Variant = "Sans"
	}
	f.plot.X.Tick.Marker = plot.TickerFunc(func(lo, hi float64) (ticks []plot.Tick) {
		for x := 0.0; x <= hi; x += 20 {
			ticks = append(ticks, plot.Tick{Value: x, Label: fmt.Sprintf("%g", x)})
		}
		return ticks
	})
	f.plot.Add(plotter.NewGrid())
	return f
}

func (f *figure) from(y float64) *figure { f.plot.Y.Min = y; return f }
func (f *figure) to(y float64) *figure   { f.plot.Y.Max = y; return f }

// logarithmic sets a logarithmic scale with these ticks, from half the first to the last.
func (f *figure) logarithmic(at ...float64) *figure {
	var ticks []plot.Tick
	for _, y := range at {
		ticks = append(ticks, plot.Tick{Value: y, Label: fmt.Sprintf("%g×", y)})
	}
	f.plot.Y.Scale, f.plot.Y.Tick.Marker = plot.LogScale{}, plot.ConstantTicks(ticks)
	f.plot.Y.Min, f.plot.Y.Max = at[0]/2, at[len(at)-1]
	return f
}

func (f *figure) line(name string, c color.RGBA, st stroke, buckets []bucket, y func(bucket) float64) *figure {
	points := make(plotter.XYs, len(buckets))
	for i, b := range buckets {
		points[i].X, points[i].Y = b.middle.Seconds(), y(b)
		if _, log := f.plot.Y.Scale.(plot.LogScale); log {
			points[i].Y = max(points[i].Y, f.plot.Y.Min)
		}
	}
	return f.add(name, c, st, points)
}

// level draws a thin line across the whole plot.
func (f *figure) level(name string, y float64) *figure {
	return f.add(name, grey, dotted,
		plotter.XYs{{X: 0, Y: y}, {X: f.plot.X.Max, Y: y}})
}

func (f *figure) add(name string, c color.RGBA, st stroke, points plotter.XYs) *figure {
	l, err := plotter.NewLine(points)
	if err != nil {
		if f.err == nil {
			f.err = err
		}
		return f
	}
	l.Color, l.Width, l.Dashes = c, st.width, st.dashes
	f.plot.Add(l)
	f.Legend = append(f.Legend, legend{Name: name, Color: fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B), Style: st.css})
	return f
}

// draw fills in f.SVG, an element that can stand in a page.
func (f *figure) draw() error {
	fault := f.plan.healthy.Seconds()
	f.add("the fault begins", grey, dotted, plotter.XYs{{X: fault, Y: f.plot.Y.Min}, {X: fault, Y: f.plot.Y.Max}})
	if f.err != nil {
		return f.err
	}
	c := vgsvg.NewWith(vgsvg.UseWH(10*vg.Inch, 3*vg.Inch))
	f.plot.Draw(draw.Crop(draw.New(c), 0, vg.Points(-12), 0, 0)) // room for the last label of the x axis
	var out strings.Builder
	if _, err := c.WriteTo(&out); err != nil {
		return err
	}
	_, element, found := strings.Cut(out.String(), "<svg")
	if !found {
		return errors.New("no svg element in what the plotter wrote")
	}
	f.SVG = template.HTML("<svg" + element)
	return nil
}
