package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/tarn-go/tarn/cmd/tarn/internal/fetch"
	"github.com/tarn-go/tarn/debug/endpoint"
	"github.com/tarn-go/tarn/internal/plot"
)

// Bounds on what is shown of one endpoint.
const (
	mostMethods = 8
	mostWaits   = 3
)

// calls draws the servers and clients that count their calls: those of the last minute by method or route, the slowest first as on the page,
// and what calls in progress wait for.
func (v *view) calls(b *strings.Builder) {
	for _, e := range v.now.Endpoints {
		if !e.Observed {
			continue
		}
		name := cut(fetch.Clean(e.Name), v.width)
		b.WriteString("\n")
		v.wrap(b, v.styles.title.Render(name), lipgloss.Width(name), plot.Counted(float64(e.Conns), "connection")+",",
			plot.Counted(float64(e.Active), "call")+" in progress,", plot.Count(float64(e.Failed))+" of "+plot.Count(float64(e.Done))+" failed")
		v.methods(b, e.Methods)
		for _, w := range e.Waits[:min(len(e.Waits), mostWaits)] {
			b.WriteString(cut(fmt.Sprintf("  %s, the oldest for %s, in wait for %s: %s", plot.Counted(float64(w.Calls), "call"), plot.Span(w.Oldest), fetch.Clean(w.For), fetch.Clean(w.Method)), v.width) + "\n")
		}
	}
}

func (v *view) methods(b *strings.Builder, all []endpoint.Method) {
	lately := slices.DeleteFunc(slices.Clone(all), func(m endpoint.Method) bool { return m.Minute.Ended == 0 })
	if len(lately) == 0 {
		return
	}
	slices.SortStableFunc(lately, func(a, b endpoint.Method) int { return cmp.Compare(b.Minute.P99, a.Minute.P99) })
	b.WriteString(v.styles.dim.Render(cut(fmt.Sprintf("%10s%10s%10s%9s  %s", "in 1 min", "p50", "p99", "failed", "method"), v.width)) + "\n")
	for _, m := range lately[:min(len(lately), mostMethods)] {
		row := fmt.Sprintf("%10s%10s%10s%9s  %s", plot.Count(float64(m.Minute.Ended)), seconds(m.Minute.P50), seconds(m.Minute.P99), plot.Count(float64(m.Failed())), fetch.Clean(m.Name))
		b.WriteString(cut(row, v.width) + "\n")
	}
	if n := len(lately) - mostMethods; n > 0 {
		b.WriteString(cut(fmt.Sprintf("%39s  and %d more", "", n), v.width) + "\n")
	}
}

func seconds(s float64) string { return plot.Span(time.Duration(s * float64(time.Second))) }
