package tarn

import (
	"errors"
	"fmt"

	"github.com/tarn-go/tarn/internal/ladder"
)

// Bounds of a pool's size classes.
const (
	MaxClasses   = 1024           // classes in one pool
	MaxClassSize = ladder.MaxSize // bytes of one class
)

// ErrClasses is matched by the errors of NewPool and SetClasses about size classes. The list is
// invalid; the error says which entry.
var ErrClasses = errors.New("tarn: bad size classes")

// DefaultClasses returns the default size classes in bytes, ascending: from 64 B to 8 MiB, eight
// classes a doubling above 1 KiB, so that a length above 1 KiB wastes at most an eighth of its slab.
// From 128 KiB on each power of two is followed by one with 8 KiB more, the page in which the
// headers of a protocol put a payload of that size; below, the next class is that near anyway.
func DefaultClasses() []int {
	classes := []int{64, 128, 192, 256, 320, 384, 448, 512, 640, 768, 896, 1024}
	for base := 1 << 10; base < 8<<20; base *= 2 {
		if base >= 128<<10 {
			classes = append(classes, base+8<<10)
		}
		for i := 1; i <= 8; i++ {
			classes = append(classes, base+base/8*i)
		}
	}
	return append(classes, 8<<20+8<<10)
}

func checkClasses(sizes []int) error {
	if len(sizes) == 0 || len(sizes) > MaxClasses {
		return fmt.Errorf("%w: %d of them; a pool has 1 to %d", ErrClasses, len(sizes), MaxClasses)
	}
	for i, size := range sizes {
		switch {
		case size <= 0 || size > MaxClassSize:
			return fmt.Errorf("%w: class %d is %d bytes; a class is 1 to %d", ErrClasses, i, size, MaxClassSize)
		case i > 0 && size <= sizes[i-1]:
			return fmt.Errorf("%w: class %d (%d bytes) does not exceed the one before (%d bytes); sort them", ErrClasses, i, size, sizes[i-1])
		}
	}
	return nil
}
