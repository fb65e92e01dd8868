package sizing

import (
	"fmt"
	"slices"
)

// Options narrow what ladder is looked for. The zero value asks for nothing: any size may be a class,
// a class costs nothing, and every recorded size is covered.
type Options struct {
	// ClassCost is what one more class must save, in bytes wasted over the whole recording, to be
	// worth having. A ladder then has the number of classes, up to k, that makes waste plus cost
	// the least. 0: classes are free.
	ClassCost uint64
	// MinClass is the smallest class in bytes; smaller requests share it. 0 and 1: no minimum.
	MinClass int
	// MaxClass leaves requests above it to be oversize: no class covers them, and they count neither
	// as waste nor as gain. 0: every recorded size is covered.
	MaxClass int
	// Align makes every class that is not forced a multiple of it, in bytes. 0 and 1: no alignment.
	Align int
	// Forced classes are in the ladder whatever they save, and count towards k. In any order;
	// MinClass, MaxClass and Align do not apply to them.
	Forced []int
}

// check says which options contradict each other or cannot be met.
func (o Options) check(k int) error {
	switch {
	case k < 1:
		return fmt.Errorf("%w: a ladder of %d classes", ErrOptions, k)
	case k > MaxClasses:
		return fmt.Errorf("%w: %d classes, at most %d are taken", ErrTooLarge, k, MaxClasses)
	case o.MinClass < 0 || o.MaxClass < 0 || o.Align < 0:
		return fmt.Errorf("%w: a negative size", ErrOptions)
	case o.MinClass > MaxSize || o.MaxClass > MaxSize || o.Align > MaxSize:
		return fmt.Errorf("%w: sizes end at %d bytes", ErrTooLarge, MaxSize)
	case o.MaxClass > 0 && o.MinClass > o.MaxClass:
		return fmt.Errorf("%w: the smallest class %d is above the largest %d", ErrOptions, o.MinClass, o.MaxClass)
	case len(o.Forced) > MaxClasses:
		return fmt.Errorf("%w: %d forced classes, at most %d are taken", ErrTooLarge, len(o.Forced), MaxClasses)
	}
	for _, f := range o.Forced {
		if f < 1 {
			return fmt.Errorf("%w: a forced class of %d bytes", ErrOptions, f)
		}
		if f > MaxSize {
			return fmt.Errorf("%w: a forced class of %d bytes, at most %d are taken", ErrTooLarge, f, MaxSize)
		}
	}
	if n := len(o.forced()); n > k {
		return fmt.Errorf("%w: %d forced classes in a ladder of %d", ErrOptions, n, k)
	}
	return nil
}

// forced returns the forced classes in rising order, each once.
func (o Options) forced() []int {
	f := slices.Clone(o.Forced)
	slices.Sort(f)
	return slices.Compact(f)
}

// class is the smallest allowed class that holds a request of size bytes; 0 when MaxClass leaves the
// request out. Rounding up may pass MaxClass; the class is then MaxClass itself, aligned or not,
// because a request it covers must not be lost to rounding.
func (o Options) class(size int) int {
	if o.MaxClass > 0 && size > o.MaxClass {
		return 0
	}
	c := max(size, o.MinClass)
	if o.Align > 1 {
		c = (c + o.Align - 1) / o.Align * o.Align
	}
	if o.MaxClass > 0 && c > o.MaxClass {
		c = o.MaxClass
	}
	return c
}
