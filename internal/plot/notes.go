package plot

import "slices"

// point is a dot with a note beside it: the first of notes that is no wider than the figure. The title shows at the pointer.
type point struct {
	x, y  float64
	class string
	title string
	notes []string
}

func (p point) note(width float64) string {
	for _, n := range p.notes {
		if noteWidth(n) <= width {
			return n
		}
	}
	return p.notes[len(p.notes)-1]
}

func noteWidth(text string) float64 { return noteChar * float64(len(text)) }

// box is an area of a figure, in its units.
type box struct{ left, top, right, bottom float64 }

func (b box) meets(o box) bool {
	return b.left < o.right && o.left < b.right && b.top < o.bottom && o.top < b.bottom
}

func (b box) within(o box) bool {
	return b.left >= o.left && b.right <= o.right && b.top >= o.top && b.bottom <= o.bottom
}

const (
	dotRadius = 5
	// noteChar and noteHeight are about the width of a character of a note and the height of its line.
	noteChar   = 6.5
	noteHeight = 13
	noteGap    = 9 // from the middle of a dot to its note
)

// points draws dots, and each one's note at the first place near it, within the area, that touches neither another dot nor
// another note nor, if there is such a place, one of lines.
func (s *svg) points(all []point, area box, lines []box) {
	var taken []box
	for _, p := range all {
		s.addf(`<g class="%s"><title>%s</title><circle cx="%.1f" cy="%.1f" r="%d"/></g>`, p.class, p.title, p.x, p.y, dotRadius)
		taken = append(taken, box{p.x - dotRadius, p.y - dotRadius, p.x + dotRadius, p.y + dotRadius})
	}
	for _, p := range all {
		note := p.note(area.right - area.left)
		at, ok := placeNote(p, noteWidth(note), area, append(slices.Clip(lines), taken...))
		if !ok {
			at, _ = placeNote(p, noteWidth(note), area, taken)
		}
		taken = append(taken, at)
		s.text("note", "start", at.left, at.bottom-3, note)
	}
}

// placeNote returns where the note of p, of that width, goes: to the right of it and to its left, above and below, at the right edge, then at growing distances;
// to the right, as far as the area reaches, and not ok, when there is no free place.
func placeNote(p point, width float64, area box, taken []box) (at box, ok bool) {
	place := func(left, bottom float64) box { return box{left, bottom - noteHeight, left + width, bottom} }
	for line := range 8 {
		for _, bottom := range []float64{p.y - 4 - float64(line*noteHeight), p.y + 4 + float64((line+1)*noteHeight)} {
			for _, left := range []float64{p.x + noteGap, p.x - noteGap - width, min(max(p.x-width/2, area.left), area.right-width), area.right - noteGap - width} {
				at := place(left, bottom)
				if !at.within(area) {
					continue
				}
				free := true
				for _, o := range taken {
					free = free && !at.meets(o)
				}
				if free {
					return at, true
				}
			}
		}
	}
	return place(max(min(p.x+noteGap, area.right-width), area.left), p.y-4), false
}
