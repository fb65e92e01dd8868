package main

import (
	"fmt"
	"html"
	"io"
	"maps"
	"slices"
	"strings"
)

const (
	graphWidth = 1200 // all in pixels
	boxHeight  = 17
	margin     = 10
	titleSpace = 34
	letter     = 6.6 // how wide a letter is, about
)

// draw writes the graph of root; calls below the share least of its samples are left out.
func draw(w io.Writer, root *call, title string, least float64) {
	height := titleSpace + (depth(root, root.samples, least)+1)*boxHeight + margin
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n", graphWidth, height)
	fmt.Fprintf(w, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", graphWidth, height)
	fmt.Fprintf(w, `<text x="%d" y="22" font-size="15">%s</text>`+"\n", margin, html.EscapeString(title))
	g := graph{w: w, samples: root.samples, least: least}
	g.box(root, margin, height-margin-boxHeight)
	io.WriteString(w, "</svg>\n") // run reports the error of Flush
}

// graph is a graph that is being written.
type graph struct {
	w       io.Writer
	samples int
	least   float64
}

// box writes c with its upper left corner at x, y, and above it what it called.
func (g *graph) box(c *call, x float64, y int) {
	share := float64(c.samples) / float64(g.samples)
	width := share * (graphWidth - 2*margin)
	name := html.EscapeString(c.name)
	fmt.Fprintf(g.w, `<g><title>%s %.1f %%</title><rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>`,
		name, 100*share, x, y, max(width-0.5, 0.5), boxHeight-1, colour(c.name))
	if letters := int((width - 6) / letter); letters >= 3 {
		if len(c.name) > letters {
			name = html.EscapeString(c.name[:letters-1]) + "…"
		}
		fmt.Fprintf(g.w, `<text x="%.1f" y="%d">%s</text>`, x+3, y+boxHeight-5, name)
	}
	io.WriteString(g.w, "</g>\n")
	for _, next := range drawn(c, g.samples, g.least) {
		g.box(next, x, y-boxHeight)
		x += float64(next.samples) / float64(g.samples) * (graphWidth - 2*margin)
	}
}

// drawn returns the calls by c that are drawn, in the order of their names.
func drawn(c *call, samples int, least float64) []*call {
	var list []*call
	for _, name := range slices.Sorted(maps.Keys(c.callees)) {
		if next := c.callees[name]; float64(next.samples) >= least*float64(samples) {
			list = append(list, next)
		}
	}
	return list
}

// depth returns how many calls are drawn one above the other, without c.
func depth(c *call, samples int, least float64) int {
	deepest := 0
	for _, next := range drawn(c, samples, least) {
		deepest = max(deepest, 1+depth(next, samples, least))
	}
	return deepest
}

// colour is chosen by the package that a function belongs to.
func colour(name string) string {
	pkg, _, _ := strings.Cut(name, ".")
	switch pkg {
	case "h2", "wire":
		return "#7fb8a4"
	case "rpc", "message", "workers":
		return "#9ccfd8"
	case "tarn", "slab":
		return "#b8d98b"
	case "proto", "impl", "protowire":
		return "#f2cf7a"
	case "runtime", "gcWriteBarrier", "memeqbody", "aeshashbody":
		return "#e8a48a"
	}
	if pkg == name {
		return "#c9c5d9" // a function without a package: the kernel's
	}
	return "#dddddd"
}
