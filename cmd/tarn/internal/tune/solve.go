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
	asked         int // the number of classes asked for; 0: none
	advice        sizing.Advice
	before, after sizing.Outcome // of a trace: replayed with the ladder in force, and with the one proposed
}

// solve finds the best size classes, k of them. A histogram that names no classes is compared with the default ones.
func solve(in input, k int) (result, error) {
	if len(in.h.Classes) == 0 {
		in.h.Classes = tarn.DefaultClasses()
	}
	r := result{input: in, asked: k}
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
	fmt.Fprintf(&b, "%s: %s recorded", fetch.Clean(r.name), plot.Counted(float64(a.Now.Gets), "get"))
	if r.h.Peak > 0 {
		fmt.Fprintf(&b, ", peak %s", plot.Bytes(float64(r.h.Peak)))
	}
	b.WriteString("\n")
	line(&b, "now", len(r.h.Classes), a.Now.Share(), a.Now)
	if !a.Keep {
		line(&b, r.proposed(), len(a.Ladder), a.Best.Share(), a.Best)
	}
	fmt.Fprintf(&b, "  %s", a.Verdict())
	if a.Keep && r.asked == 0 {
		b.WriteString(" -k N asks for the best N.")
	}
	b.WriteString("\n")
	if s := r.saved(); s > 0 {
		fmt.Fprintf(&b, "  That is about %s less at the recorded peak.\n", plot.Bytes(float64(s)))
	}
	for _, p := range a.Curve {
		if p.Classes == a.Knee {
			fmt.Fprintf(&b, "  Returns diminish beyond %s (waste %s).\n", plot.Classes(p.Classes), plot.Percent(p.Share))
		}
	}
	if text := r.replayed(); text != "" {
		fmt.Fprintf(&b, "  %s\n", text)
	}
	if !a.Keep {
		fmt.Fprintf(&b, "\n%s\n", sizing.GoLine(a.Ladder))
	}
	b.WriteString("\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// proposed is what the line of the ladder proposed begins with: the number of its classes, unless it is better
// than the ladder in force.
func (r result) proposed() string {
	if r.advice.Better() {
		return "best"
	}
	return fmt.Sprintf("k=%d", len(r.advice.Ladder))
}

// saved is how much less the ladder proposed holds at the recorded peak, estimated from the waste. It is 0 where that ladder
// is better because it pools more requests, and wastes more. A trace is replayed instead.
func (r result) saved() int64 {
	if r.trace != nil || !r.advice.Better() {
		return 0
	}
	return max(r.advice.Saved, 0)
}

// replayed says what a trace's replays found. They measure something else than waste, and may prefer the
// other ladder.
func (r result) replayed() string {
	if r.trace == nil {
		return ""
	}
	before, after := r.before, r.after
	if r.advice.Keep {
		return fmt.Sprintf("Replayed: at most %s in use at a time, hits %s.", plot.Bytes(float64(before.PeakInUse)), plot.Percent(before.HitRate()))
	}
	return fmt.Sprintf("Replayed, which the advice above does not count: at most %s in use at a time now, %s with those proposed; hits %s now, %s with those proposed.",
		plot.Bytes(float64(before.PeakInUse)), plot.Bytes(float64(after.PeakInUse)), plot.Percent(before.HitRate()), plot.Percent(after.HitRate()))
}

func line(b *strings.Builder, what string, classes int, share float64, u sizing.Usage) {
	fmt.Fprintf(b, "  %-5s %11s, waste %s", what, plot.Classes(classes), plot.Percent(share))
	if u.Oversize > 0 {
		fmt.Fprintf(b, ", %s of gets above the largest class", plot.Percent(float64(u.Oversize)/float64(max(u.Gets, 1))))
	}
	b.WriteString("\n")
}
