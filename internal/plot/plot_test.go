package plot

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/sizing"
)

func TestUnits(t *testing.T) {
	for _, tc := range []struct{ got, want string }{
		{Bytes(0), "0 B"}, {Bytes(1023), "1023 B"}, {Bytes(1024), "1 KiB"}, {Bytes(1536), "1.5 KiB"},
		{Bytes(1 << 20), "1 MiB"}, {Bytes(1<<20 - 1), "1.0 MiB"}, {Bytes(150.2 * 1024), "150 KiB"}, {Bytes(1 << 60), "1 EiB"},
		{Count(0), "0"}, {Count(999), "999"}, {Count(1000), "1k"}, {Count(12345), "12.3k"}, {Count(999999), "1.0M"}, {Count(4.13e6), "4.1M"},
		{Percent(0), "0%"}, {Percent(0.034), "3.4%"}, {Percent(0.5), "50%"}, {Percent(1), "100%"}, {Percent(0.0996), "10%"},
		{Percent(0.99999), "99.9%"}, {Percent(0.9956), "99.5%"}, {Percent(0.99), "99%"}, {Percent(0.00001), "<0.1%"},
	} {
		if tc.got != tc.want {
			t.Errorf("got %q, want %q", tc.got, tc.want)
		}
	}
}

// wellFormed fails the test unless text is XML without NaN or Inf.
func wellFormed(t *testing.T, text string) {
	t.Helper()
	if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") || strings.Contains(text, "%!") {
		t.Errorf("not a number in %.200s", text)
	}
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Errorf("%v in %.200s", err, text)
			return
		}
	}
}

func TestSizes(t *testing.T) {
	var many []sizing.SizeCount
	for size := 1; size <= 1<<30; size += size/8 + 1 {
		many = append(many, sizing.SizeCount{Size: size, Count: uint64(size)})
	}
	for _, h := range []sizing.Histogram{
		{Sizes: []sizing.SizeCount{{Size: 1, Count: 1}}},
		{Sizes: []sizing.SizeCount{{Size: 4096, Count: 1 << 60}}},
		{Sizes: []sizing.SizeCount{{Size: 0, Count: 3}, {Size: 100, Count: 0}, {Size: 5000, Count: 2}}},
		{Sizes: many},
	} {
		for _, ladder := range [][]int{nil, {1}, {64, 4096, 65536}, {1 << 30}} {
			for _, f := range []Frame{Wide(), Middle(), Narrow()} {
				text := Sizes(h, ladder, f, 0, "a label")
				if !strings.HasPrefix(text, "<svg") || !strings.Contains(text, "<title>") {
					t.Errorf("no figure: %.100s", text)
				}
				wellFormed(t, text)
			}
		}
	}
	if got := Sizes(sizing.Histogram{}, nil, Wide(), 0, ""); got != "" {
		t.Errorf("a figure of nothing: %s", got)
	}
}

// TestSizesShowWaste: the figure shows bytes that one ladder wastes and another does not.
func TestSizesShowWaste(t *testing.T) {
	h := sizing.Histogram{Sizes: []sizing.SizeCount{{Size: 5000, Count: 100}, {Size: 1 << 20, Count: 1}}}
	for _, tc := range []struct {
		ladder []int
		class  string
		want   bool
	}{
		{[]int{8192, 1 << 20}, "wasted", true},
		{[]int{5000, 1 << 20}, "wasted", false},
		{[]int{8192}, "over", true},
		{[]int{8192, 1 << 20}, "over", false},
	} {
		if got := strings.Contains(Sizes(h, tc.ladder, Wide(), 0, ""), `class="`+tc.class+`"`); got != tc.want {
			t.Errorf("%v: %s shown: %v", tc.ladder, tc.class, got)
		}
	}
}

func TestCurve(t *testing.T) {
	h := sizing.Histogram{Sizes: []sizing.SizeCount{{Size: 10, Count: 5}, {Size: 100, Count: 7}, {Size: 5000, Count: 2}}}
	curve, err := sizing.Curve(h, 64)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][]sizing.Point{curve, curve[:1], {{Classes: 3}}} {
		for _, now := range []Mark{{}, {1, 0.9}, {300, 0.01}} {
			for _, proposed := range []Mark{{}, {2, 0.2}, {3, 0.01}, {24, 0.02}} {
				for _, f := range []Frame{{480, 210}, Narrow()} {
					text := Curve(c, Marks{sizing.Knee(c), now, proposed}, f)
					if !strings.HasPrefix(text, "<svg") {
						t.Errorf("no figure: %.100s", text)
					}
					wellFormed(t, text)
					if got := strings.Contains(text, `class="proposed"`); got != (proposed.Classes > 0) {
						t.Errorf("%v: the ladder proposed is shown: %v", proposed, got)
					}
				}
			}
		}
	}
	if got := Curve(nil, Marks{}, Wide()); got != "" {
		t.Errorf("a figure of nothing: %s", got)
	}
}

// TestNotesOfCurveApart: wherever the ladders stand, the notes do not cover each other or a dot, and are not cut.
func TestNotesOfCurveApart(t *testing.T) {
	var curve []sizing.Point
	for k := 1; k <= 128; k++ {
		curve = append(curve, sizing.Point{Classes: k, Share: 0.6 / float64(k)})
	}
	note := regexp.MustCompile(`<text class="note"[^>]* x="([0-9.-]+)" y="([0-9.-]+)"[^>]*>([^<]*)</text>`)
	dot := regexp.MustCompile(`<circle cx="([0-9.-]+)" cy="([0-9.-]+)"`)
	number := func(text string) float64 {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, f := range []Frame{Middle(), Narrow()} {
		for _, knee := range []int{2, 10, 60} {
			for _, proposed := range []int{0, 3, 10, 11, 24, 128} {
				for _, now := range []int{1, 9, 10, 40, 123, 128} {
					m := Marks{knee, Mark{now, 0.7 / float64(now)}, Mark{proposed, 0.6 / float64(max(proposed, 1))}}
					text := Curve(curve, m, f)
					var boxes []box
					for _, d := range dot.FindAllStringSubmatch(text, -1) {
						x, y := number(d[1]), number(d[2])
						boxes = append(boxes, box{x - dotRadius, y - dotRadius, x + dotRadius, y + dotRadius})
					}
					notes := note.FindAllStringSubmatch(text, -1)
					if want := len(boxes); len(notes) != want {
						t.Fatalf("%d notes, %d dots: %s", len(notes), want, text)
					}
					for _, n := range notes {
						x, y := number(n[1]), number(n[2])
						at := box{x, y + 3 - noteHeight, x + noteChar*float64(len(n[3])), y + 3}
						if !at.within(box{0, 0, f.Width, f.Height}) {
							t.Errorf("%v: %q is cut: %v", m, n[3], at)
						}
						for _, o := range boxes {
							if at.meets(box{o.left + .1, o.top + .1, o.right - .1, o.bottom - .1}) {
								t.Errorf("%v in %v: %q at %v covers %v", m, f, n[3], at, o)
							}
						}
						boxes = append(boxes, at)
					}
				}
			}
		}
	}
}

// TestNotesBesideCurve: where there is room beside the curve, a note does not lie on it.
func TestNotesBesideCurve(t *testing.T) {
	var curve []sizing.Point
	for k := 1; k <= 128; k++ {
		curve = append(curve, sizing.Point{Classes: k, Share: 1.5 / float64(k)})
	}
	note := regexp.MustCompile(`<text class="note"[^>]* x="([0-9.-]+)" y="([0-9.-]+)"[^>]*>([^<]*)</text>`)
	vertex := regexp.MustCompile(`[ML]([0-9.]+) ([0-9.]+)`)
	text := Curve(curve, Marks{10, Mark{13, 0.38}, Mark{32, 0.051}}, Narrow())
	path := vertex.FindAllStringSubmatch(regexp.MustCompile(`class="best" d="[^"]*"`).FindString(text), -1)
	if len(path) != len(curve) {
		t.Fatalf("%d vertices: %s", len(path), text)
	}
	for _, n := range note.FindAllStringSubmatch(text, -1) {
		x, _ := strconv.ParseFloat(n[1], 64)
		y, _ := strconv.ParseFloat(n[2], 64)
		at := box{x, y + 3 - noteHeight, x + noteChar*float64(len(n[3])), y + 3}
		for _, v := range path {
			px, _ := strconv.ParseFloat(v[1], 64)
			py, _ := strconv.ParseFloat(v[2], 64)
			if at.meets(box{px - .1, py - .1, px + .1, py + .1}) {
				t.Fatalf("%q at %v lies on the curve at %v", n[3], at, v)
			}
		}
	}
}

// The labels of the axis of waste are not cut off, however many characters a small share has.
func TestCurveLabelsFit(t *testing.T) {
	label := regexp.MustCompile(`text-anchor="end" x="([0-9.-]+)"[^>]*>([^<]*%)</text>`)
	for _, f := range []Frame{Middle(), Narrow()} {
		for _, share := range []float64{0, 0.001, 0.02, 0.3} {
			text := Curve([]sizing.Point{{Classes: 1, Share: share}, {Classes: 2, Share: share}}, Marks{}, f)
			labels := label.FindAllStringSubmatch(text, -1)
			if len(labels) < 3 {
				t.Errorf("%d labels: %s", len(labels), text)
			}
			for _, l := range labels {
				if end, err := strconv.ParseFloat(l[1], 64); err != nil || end < percentWidth(l[2]) {
					t.Errorf("share %v, %v wide: %q ends at %s, so its begin is cut off", share, f.Width, l[2], l[1])
				}
			}
		}
	}
}

// TestKneeIsInside: the mark of the knee is in the figure, also where the knee wastes more than the classes in force.
func TestKneeIsInside(t *testing.T) {
	curve := []sizing.Point{{Classes: 1, Share: 0.5}, {Classes: 2, Share: 0.31}, {Classes: 3, Share: 0.1}}
	knee := regexp.MustCompile(`class="knee[^>]*>(?:<title>[^<]*</title>)?<circle cx="[^"]*" cy="([0-9.]+)" r="([0-9.]+)"`)
	got := knee.FindStringSubmatch(Curve(curve, Marks{Knee: 2, Now: Mark{Classes: 123, Share: 0.13}}, Wide()))
	if got == nil {
		t.Fatal("there is no knee")
	}
	at, _ := strconv.ParseFloat(got[1], 64)
	if r, _ := strconv.ParseFloat(got[2], 64); at <= r {
		t.Errorf("a knee of radius %v is %v below the edge", r, at)
	}
}

// TestCurveFillsTheLine: without classes to paste beside it the curve has a large window's whole line.
func TestCurveFillsTheLine(t *testing.T) {
	curve := []sizing.Point{{Classes: 1, Share: 0.5}, {Classes: 2, Share: 0.31}, {Classes: 3, Share: 0.1}}
	for want, marks := range map[string]Marks{
		`<div class="plot wide"><svg class="curve" viewBox="0 0 1000 `: {Now: Mark{Classes: 3, Share: 0.1}},
		`<div class="plot half"><svg class="curve" viewBox="0 0 420 `:  {Now: Mark{Classes: 1, Share: 0.5}, Proposed: Mark{Classes: 3, Share: 0.1}},
	} {
		if got := CurveOnScreens(curve, marks); !strings.HasPrefix(got, want) {
			t.Errorf("no %s in %.80s", want, got)
		}
	}
}

// The axis of waste is labelled with round percentages whose texts are exact.
func TestCurveTicksAreRound(t *testing.T) {
	label := regexp.MustCompile(`text-anchor="end"[^>]*>([^<]*)%</text>`)
	for _, share := range []float64{0, 0.004, 0.013, 0.031, 0.09, 0.22, 0.38, 0.56, 1} {
		curve := []sizing.Point{{Classes: 1, Share: share}, {Classes: 2, Share: share}, {Classes: 3, Share: share}}
		ticks := label.FindAllStringSubmatch(Curve(curve, Marks{}, Frame{480, 210}), -1)
		if len(ticks) < 3 || len(ticks) > 7 {
			t.Errorf("share %v: %d ticks: %v", share, len(ticks), ticks)
			continue
		}
		step, err := strconv.ParseFloat(ticks[1][1], 64)
		if digits := strings.Trim(strings.ReplaceAll(ticks[1][1], ".", ""), "0"); err != nil || digits != "1" && digits != "2" && digits != "5" {
			t.Errorf("share %v: a step of %s%%", share, ticks[1][1])
		}
		for i, tick := range ticks {
			if v, err := strconv.ParseFloat(tick[1], 64); err != nil || math.Abs(v-float64(i)*step) > 1e-9 {
				t.Errorf("share %v: tick %d is %s%%, the step %v%%", share, i, tick[1], step)
			}
		}
	}
}
