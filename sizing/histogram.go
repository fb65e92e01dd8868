package sizing

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/tarn-go/tarn"
)

// Errors of this package, to be matched with errors.Is. All of them describe mistakes in the histogram, the
// trace or the options passed in.
var (
	// ErrEmpty: the histogram or trace holds no request, so no ladder is better than another.
	ErrEmpty = errors.New("sizing: nothing recorded")
	// ErrMalformed: the input is not a histogram or trace, or holds impossible values.
	ErrMalformed = errors.New("sizing: malformed input")
	// ErrTooLarge: the input passes a bound of this package ([MaxSize], [MaxSizes], [MaxClasses]).
	ErrTooLarge = errors.New("sizing: input too large")
	// ErrOptions: the options contradict each other, or cannot be met.
	ErrOptions = errors.New("sizing: impossible options")
)

// Bounds on what is accepted, so that a histogram from elsewhere cannot cost more than it should.
const (
	MaxSize    = tarn.MaxClassSize // bytes, the largest size a histogram or trace may hold
	MaxSizes   = 1 << 20           // distinct sizes in a histogram
	MaxClasses = 1 << 10           // classes in a ladder, and the largest k

	maxJSON  = 64 << 20 // bytes of JSON read
	maxTable = 1 << 28  // entries of the solver's table, four bytes each
)

// Read reads one histogram from its JSON form, as (*tarn.Pool).Histogram marshals it. It reads at
// most 64 MiB and checks what it read: a nil error means that [Solve] takes the result. Errors match
// ErrMalformed, ErrEmpty or ErrTooLarge; errors of r itself are returned as they are.
func Read(r io.Reader) (Histogram, error) {
	limited := &io.LimitedReader{R: r, N: maxJSON + 1}
	data, err := io.ReadAll(limited)
	if err != nil {
		return Histogram{}, err
	}
	if limited.N <= 0 {
		return Histogram{}, fmt.Errorf("%w: more than %d bytes of JSON", ErrTooLarge, maxJSON)
	}
	return Parse(data)
}

// Parse is [Read] for JSON already in memory. It keeps no reference to data.
func Parse(data []byte) (Histogram, error) {
	var h Histogram
	if err := json.Unmarshal(data, &h); err != nil {
		return Histogram{}, fmt.Errorf("%w: %v", ErrMalformed, err)
	}
	if err := Check(h); err != nil {
		return Histogram{}, err
	}
	return h, nil
}

// Check reports what is wrong with h: ErrMalformed for a size below one, a class ladder that does
// not rise, a negative peak or period; ErrTooLarge for a bound passed; ErrEmpty when no size has a
// count. Sizes may come in any order, repeat themselves, and have a count of zero.
func Check(h Histogram) error {
	switch {
	case h.Every < 0:
		return fmt.Errorf("%w: one sample in %d", ErrMalformed, h.Every)
	case h.Peak < 0:
		return fmt.Errorf("%w: a peak of %d bytes", ErrMalformed, h.Peak)
	case len(h.Sizes) > MaxSizes:
		return fmt.Errorf("%w: %d sizes, at most %d are taken", ErrTooLarge, len(h.Sizes), MaxSizes)
	}
	if err := checkLadder(h.Classes); err != nil {
		return err
	}
	empty := true
	for _, s := range h.Sizes {
		if s.Size < 1 {
			return fmt.Errorf("%w: a size of %d bytes", ErrMalformed, s.Size)
		}
		if s.Size > MaxSize {
			return fmt.Errorf("%w: a size of %d bytes, at most %d are taken", ErrTooLarge, s.Size, MaxSize)
		}
		if s.Bytes > mulSat(s.Count, uint64(s.Size)) {
			return fmt.Errorf("%w: %d requests of at most %d bytes for %d bytes", ErrMalformed, s.Count, s.Size, s.Bytes)
		}
		empty = empty && s.Count == 0
	}
	if empty {
		return fmt.Errorf("%w: the histogram has no counts", ErrEmpty)
	}
	return nil
}

// checkLadder accepts what a pool accepts: positive sizes, each larger than the one before it.
func checkLadder(classes []int) error {
	if len(classes) > MaxClasses {
		return fmt.Errorf("%w: %d classes, at most %d are taken", ErrTooLarge, len(classes), MaxClasses)
	}
	last := 0
	for _, c := range classes {
		if c <= last {
			return fmt.Errorf("%w: class %d after class %d", ErrMalformed, c, last)
		}
		if c > MaxSize {
			return fmt.Errorf("%w: a class of %d bytes, at most %d are taken", ErrTooLarge, c, MaxSize)
		}
		last = c
	}
	return nil
}

// Since returns what was recorded in now and not yet in before: two snapshots of the same pool, whose
// counts only grow. Name, Peak and Classes are now's. If a count fell (another pool, a restart), before
// is ignored and all of now is returned.
func Since(now, before Histogram) Histogram {
	old := make(map[int]SizeCount, len(before.Sizes))
	for _, s := range before.Sizes {
		had := old[s.Size]
		old[s.Size] = SizeCount{Size: s.Size, Count: had.Count + s.Count, Bytes: addSat(had.Bytes, requested(s))}
	}
	diff := now
	diff.Sizes = make([]SizeCount, 0, len(now.Sizes))
	for _, s := range now.Sizes {
		had := old[s.Size]
		if s.Count < had.Count || requested(s) < had.Bytes {
			return now
		}
		delete(old, s.Size)
		if n := s.Count - had.Count; n > 0 {
			diff.Sizes = append(diff.Sizes, newSizeCount(s.Size, n, requested(s)-had.Bytes))
		}
	}
	for _, s := range old {
		if s.Count > 0 {
			return now
		}
	}
	return diff
}

// merged returns h's sizes in rising order, each once, without those that were never asked for.
func merged(sizes []SizeCount) []SizeCount {
	out := make([]SizeCount, 0, len(sizes))
	for _, s := range sizes {
		if s.Count > 0 {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b SizeCount) int { return a.Size - b.Size })
	n := 0
	for _, s := range out {
		if n > 0 && out[n-1].Size == s.Size {
			out[n-1] = newSizeCount(s.Size, addSat(out[n-1].Count, s.Count), addSat(requested(out[n-1]), requested(s)))
			continue
		}
		out[n] = s
		n++
	}
	return out[:n]
}
