package tune

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/cmd/tarn/internal/fetch"
	"github.com/tarn-go/tarn/internal/plot"
	"github.com/tarn-go/tarn/sizing"
)

// result is the analysis of one histogram.
type result struct {
	input
	advice sizing.Advice
	// peaks are the most bytes out at a time with the present ladder and with the best, and hits their
	// rates; known for traces alone.
	before, after sizing.Outcome
}

// solve finds the best size classes, k of them. A histogram that names no classes is compared with the default ones.
func solve(in input, k int) (result, error) {
	if len(in.h.Classes) == 0 {
		in.h.Classes = tarn.DefaultClasses()
	}
	r := result{input: in}
	if in.trace != nil {
		var err error
		if r.before, err = replay(in, in.h.Classes); err != nil {
			return r, err
		}
		in.h.Peak = r.before.PeakInUse
		r.h.Peak = in.h.Peak
	}
	var err error
	r.advice, err = sizing.Recommend(in.h, k)
	if errors.Is(err, sizing.ErrEmpty) && in.h.Every > 1 {
		return r, fmt.Errorf("%w; a pool records one get in %d: repeat when the program has worked for a while", err, in.h.Every)
	}
	if err != nil {
		return r, err
	}
	if in.trace != nil {
		if r.after, err = replay(in, r.advice.Ladder); err != nil {
			return r, err
		}
		r.advice.Saved = r.before.PeakInUse - r.after.PeakInUse
	}
	return r, nil
}

func replay(in input, ladder []int) (sizing.Outcome, error) {
	return sizing.Simulate(*in.trace, sizing.Replay{Classes: ladder, Retain: tarn.DefaultRetain})
}

// print writes the findings as text.
func (r result) print(w io.Writer) error {
	a := r.advice
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s gets recorded", fetch.Clean(r.name), plot.Count(float64(a.Now.Gets)))
	if r.h.Peak > 0 {
		fmt.Fprintf(&b, ", peak %s", plot.Bytes(float64(r.h.Peak)))
	}
	b.WriteString("\n")
	line(&b, "now", len(r.h.Classes), a.Now.Share(), a.Now)
	if a.Keep {
		b.WriteString("  best  the same: it wastes little; -k N asks for N classes\n")
	} else {
		name := "best"
		if a.Best.Waste() > a.Now.Waste() {
			name = fmt.Sprintf("k=%d", len(a.Ladder)) // the best of so many classes, and worse than what is there
		}
		line(&b, name, len(a.Ladder), a.Best.Share(), a.Best)
		if a.Best.Waste() > a.Now.Waste() {
			b.WriteString("  it wastes more than the present classes: keep those, unless fewer classes are what you want\n")
		}
		if a.Saved > 0 {
			fmt.Fprintf(&b, "  saves %s at the recorded peak\n", plot.Bytes(float64(a.Saved)))
		}
	}
	for _, p := range a.Curve {
		if p.Classes == a.Knee {
			fmt.Fprintf(&b, "  beyond %d classes (waste %s) another saves little\n", p.Classes, plot.Percent(p.Share))
		}
	}
	if r.trace != nil {
		fmt.Fprintf(&b, "  replayed: hits %s now, %s with the others\n", plot.Percent(r.before.HitRate()), plot.Percent(r.after.HitRate()))
	}
	if !a.Keep {
		fmt.Fprintf(&b, "\n%s\n", sizing.GoLine(a.Ladder))
	}
	b.WriteString("\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func line(b *strings.Builder, what string, classes int, share float64, u sizing.Usage) {
	fmt.Fprintf(b, "  %-5s %3d classes, waste %s", what, classes, plot.Percent(share))
	if u.Oversize > 0 {
		fmt.Fprintf(b, ", %s of gets above the largest class", plot.Percent(float64(u.Oversize)/float64(max(u.Gets, 1))))
	}
	b.WriteString("\n")
}
