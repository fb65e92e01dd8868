package tarn

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
)

// reporter reports what no panic can: to the config's Report, or on standard error.
type reporter struct {
	report func(Misuse)
	counts [WriteAfterFree + 1]atomic.Uint64 // reports so far of misuse that checks did not track, by kind

	mu     sync.Mutex
	places map[place]uint64 // reports so far of misuse that checks tracked; at most maxPlaces
}

// place is where references come from that were misused in one way: the lines that a reader looks for.
type place struct {
	kind            MisuseKind
	acquired, freed string
}

// maxPlaces bounds the places that are distinguished; those of the others are counted as one of their kind.
const maxPlaces = 64

// add reports one misuse.
func (r *reporter) add(m Misuse) {
	if r.report != nil {
		r.report(m)
		return
	}
	r.print(os.Stderr, m)
}

// print writes the first misuse of a kind and place with its stacks, then the second, the fourth, the eighth and so
// on in a line with their number: a program that does it in a loop must not flood its log.
func (r *reporter) print(w io.Writer, m Misuse) {
	at, n := r.count(m)
	switch text := m.Error(); {
	case n == 1:
		fmt.Fprintln(w, strings.TrimSuffix(text, "\n"))
	case n&(n-1) == 0:
		line, _, _ := strings.Cut(text, "\n")
		if at.acquired != "" {
			line += ", acquired at " + at.acquired
		}
		if at.freed != "" {
			line += ", freed at " + at.freed
		}
		fmt.Fprintf(w, "%s (%d of these so far)\n", line, n)
	}
}

// count counts m, and returns how many there were of its kind and place.
func (r *reporter) count(m Misuse) (place, uint64) {
	if len(m.Acquired) == 0 {
		return place{kind: m.Kind}, r.counts[m.Kind].Add(1)
	}
	at := place{kind: m.Kind, acquired: m.Acquired.Title(), freed: m.Freed.Title()}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.places == nil {
		r.places = make(map[place]uint64)
	}
	if _, known := r.places[at]; !known && len(r.places) >= maxPlaces {
		return place{kind: m.Kind}, r.counts[m.Kind].Add(1)
	}
	r.places[at]++
	return at, r.places[at]
}
