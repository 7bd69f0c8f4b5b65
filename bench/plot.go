package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// A plot is a diagram with logarithmic axes.
type plot struct {
	title, x, y string
	lines       [sides][]point
}

type point struct{ x, y float64 }

// plots are those that the results have the numbers for, by file name.
func plots(results []result) map[string]string {
	idle := plot{title: "A fetch beside idle clients", x: "idle clients", y: "µs, median"}
	name := plot{title: "A name to its PMID", x: "names in the name space", y: "µs, median"}
	all := plot{title: "All names", x: "names in the name space", y: "names a second"}
	for i := range results {
		for s := range sides {
			add := func(p *plot, x float64, key string, factor float64) {
				if y, ok := results[i].Sides[s].median(key); ok && x > 0 && y > 0 {
					p.lines[s] = append(p.lines[s], point{x, y * factor})
				}
			}
			var k float64
			switch kind, rest, _ := strings.Cut(results[i].Scenario, "-"); {
			case kind == "clients":
				for _, n := range idleCounts {
					add(&idle, float64(n), fmt.Sprintf("p50@%d", n), 1)
				}
			case kind == "name" && scan(rest, &k):
				add(&name, k*1000, "p50", 1)
			case kind == "traverse" && scan(rest, &k):
				add(&all, k*1000, "rate", k*1000)
			}
		}
	}
	texts := map[string]string{}
	for file, p := range map[string]plot{"clients.svg": idle, "names.svg": name, "traverse.svg": all} {
		for _, l := range p.lines {
			slices.SortFunc(l, func(a, b point) int { return cmp.Compare(a.x, b.x) })
		}
		if len(p.lines[ours]) > 1 {
			texts[file] = p.svg()
		}
	}
	return texts
}

// scan reads a number of thousands, as in 100k.
func scan(s string, k *float64) bool {
	n, _ := fmt.Sscanf(s, "%fk", k)
	return n == 1
}

// Size of a plot, and of what is around the diagram in it, in pixels.
const (
	plotWidth, plotHeight    = 560, 300
	plotLeft, plotTop        = 70, 40
	plotRight, plotBottom    = 30, 50
	diagramWidth             = plotWidth - plotLeft - plotRight
	diagramHeight            = plotHeight - plotTop - plotBottom
	plotStyle                = `font-family="sans-serif" font-size="12"`
	theirsColour, oursColour = "#c0392b", "#1f6fb4"
)

// An axis maps numbers to pixels.
type axis struct{ from, to, pixels float64 }

func (a axis) at(v float64) float64 { return math.Log(v/a.from) / math.Log(a.to/a.from) * a.pixels }

// ticks are the 1, 2 and 5 of each power of ten on the axis, or the 1 only if
// there would be many.
func (a axis) ticks() (all []float64) {
	digits := []float64{1, 2, 5}
	if a.to/a.from > 200 {
		digits = digits[:1]
	}
	for p := math.Pow(10, math.Floor(math.Log10(a.from))); p <= a.to; p *= 10 {
		for _, d := range digits {
			if v := p * d; v >= a.from*0.999 && v <= a.to*1.001 {
				all = append(all, v)
			}
		}
	}
	return all
}

// axes are those that all points fit in, with some room above and below.
func (p *plot) axes() (x, y axis) {
	x = axis{math.Inf(1), 0, diagramWidth}
	y = axis{math.Inf(1), 0, diagramHeight}
	for _, l := range p.lines {
		for _, pt := range l {
			x.from, x.to = min(x.from, pt.x), max(x.to, pt.x)
			y.from, y.to = min(y.from, pt.y), max(y.to, pt.y)
		}
	}
	y.from, y.to = y.from/1.5, y.to*1.5
	return x, y
}

// svg draws the plot.
func (p *plot) svg() string {
	var b strings.Builder
	x, y := p.axes()
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" %s>`+"\n", plotWidth, plotHeight, plotStyle)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", plotWidth, plotHeight)
	text := func(x, y float64, anchor, colour, s string) {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s">%s</text>`+"\n", x, y, anchor, colour, s)
	}
	line := func(x1, y1, x2, y2 float64) {
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#ddd"/>`+"\n", x1, y1, x2, y2)
	}
	const bottom = plotTop + diagramHeight
	text(plotLeft, 20, "start", "black", p.title)
	text(plotLeft+diagramWidth/2, plotHeight-10, "middle", "black", p.x)
	text(4, plotTop-8, "start", "black", p.y)
	for _, v := range x.ticks() {
		at := plotLeft + x.at(v)
		line(at, plotTop, at, bottom)
		text(at, bottom+18, "middle", "black", tick(v))
	}
	for _, v := range y.ticks() {
		at := bottom - y.at(v)
		line(plotLeft, at, plotLeft+diagramWidth, at)
		text(plotLeft-8, at+4, "end", "black", tick(v))
	}
	for s, colour := range [sides]string{theirs: theirsColour, ours: oursColour} {
		var path []string
		for _, pt := range p.lines[s] {
			px, py := plotLeft+x.at(pt.x), bottom-y.at(pt.y)
			path = append(path, fmt.Sprintf("%.1f,%.1f", px, py))
			fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", px, py, colour)
		}
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(path, " "), colour)
		text(plotLeft+diagramWidth-float64(70*(sides-1-s)), 20, "end", colour, sideNames[s])
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// tick writes the number of a tick.
func tick(v float64) string {
	for _, u := range []struct {
		size float64
		name string
	}{{1e6, "M"}, {1e3, "k"}} {
		if v >= u.size {
			return fmt.Sprintf("%g%s", v/u.size, u.name)
		}
	}
	return fmt.Sprintf("%g", v)
}
