package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/tarn-go/tarn/internal/plot"
)

// writeText writes the report as tables for a terminal.
func (r *Report) writeText(w io.Writer) error {
	var b strings.Builder
	m := r.Machine
	fmt.Fprintf(&b, "tarn bench: %s, %d cores, %s/%s, %s, grpc-go %s\n", m.CPU, m.Cores, m.OS, m.Arch, m.Go, m.GRPC)
	fmt.Fprintf(&b, "%s; %.0f s in all.\n", r.Plan, r.Seconds)
	fmt.Fprintf(&b, "\"tarn's/its\" is Tarn's value in the first column divided by the contestant's.\n")
	if busy := m.Busy(); busy != "" {
		fmt.Fprintln(&b, busy)
	}
	r.writeSummary(&b)
	for _, s := range r.Sections {
		fmt.Fprintf(&b, "\n%s: %s\n", s.Name, s.Title)
		if s.Note != "" {
			fmt.Fprintf(&b, "\n  %s\n", s.Note)
		}
		for _, c := range s.Cases {
			c.writeText(&b)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (c *Case) writeText(w io.Writer) {
	fmt.Fprintf(w, "\n  %s\n", c.Title)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "  %s\t", pad("", c.nameWidth()))
	for i, m := range c.Metrics {
		fmt.Fprintf(t, "%s\t", m.Label)
		if i == 0 {
			fmt.Fprint(t, "tarn's/its\t")
		}
	}
	fmt.Fprintln(t)
	for _, r := range c.Rows {
		fmt.Fprintf(t, "  %s\t", pad(r.Name, c.nameWidth()))
		for i, m := range c.Metrics {
			fmt.Fprintf(t, "%s\t", m.Unit.format(r.Values[m.Key]))
			if i == 0 {
				fmt.Fprintf(t, "%s\t", c.quotientText(&r))
			}
		}
		fmt.Fprintln(t)
	}
	t.Flush() // to a strings.Builder, which does not fail
	if c.Note != "" {
		fmt.Fprintf(w, "    %s\n", c.Note)
	}
}

// nameWidth is the width of the first column, whose cells are padded to stand on the left.
func (c *Case) nameWidth() int {
	w := 10
	for _, r := range c.Rows {
		w = max(w, utf8.RuneCountInString(r.Name))
	}
	return w
}

func pad(s string, width int) string { return fmt.Sprintf("%-*s", width, s) }

// quotientText is Tarn's value of the first metric divided by r's.
func (c *Case) quotientText(r *Row) string {
	switch {
	case r.Kind == Tarn:
		return ""
	case r.Ahead == 0:
		return "?"
	default:
		return times(c.Metrics[0].quotient(r.Ahead)) + "x"
	}
}

// format formats v with about three digits.
func (u Unit) format(v float64) string {
	switch u {
	case Nanoseconds:
		return formatDuration(v)
	case Bytes:
		return plot.Bytes(v)
	default:
		return formatCount(v)
	}
}

func formatDuration(ns float64) string {
	switch d := time.Duration(ns); {
	case d < 10:
		return fmt.Sprintf("%.1f ns", ns)
	case d < 10*time.Microsecond:
		return fmt.Sprintf("%.0f ns", ns)
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.0f µs", ns/1e3)
	default:
		return fmt.Sprintf("%.0f ms", ns/1e6)
	}
}

func formatCount(v float64) string {
	switch {
	case v < 0.005:
		return "0"
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 1000:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.0f", v)
	}
}
