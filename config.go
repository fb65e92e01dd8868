package tarn

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/tarn-go/tarn/internal/ladder"
)

// DefaultRetain is the bound in bytes on what a pool keeps when its config names none.
const DefaultRetain = 256 << 20

// RetainNothing as PoolConfig.Retain makes a pool that keeps no slab for reuse.
const RetainNothing = -1

// ErrConfig is matched by NewPool's errors about anything but classes (see ErrClasses).
// The error says which field.
var ErrConfig = errors.New("tarn: bad pool config")

// ZeroPolicy says when a pool clears memory.
type ZeroPolicy int

const (
	ZeroNever  ZeroPolicy = iota // contents are undefined after Get
	ZeroOnGet                    // the bytes that Get returns or GrowTail and GrowHead add are zero
	ZeroOnFree                   // a slab is cleared when its last reference is freed, for secrets
)

// RecordPolicy says whether a pool samples the sizes it is asked for (see Pool.Histogram).
type RecordPolicy int

const (
	RecordOn  RecordPolicy = iota // one Get in RecordEvery is recorded
	RecordOff                     // nothing is recorded
)

// CheckLevel says how closely a pool checks how its buffers are used. Whatever the level, the use of a
// Buffer whose slab was freed panics.
type CheckLevel int

const (
	// CheckDefault takes the level from the environment variable TARN_CHECK: off, sampled,
	// sampled:N, all or guard. Without it checks are off. Anything else in it is named on standard
	// error; checks are off then, too, or sampled when only the N is wrong.
	CheckDefault CheckLevel = iota
	// CheckOff tracks nothing.
	CheckOff
	// CheckSampled gives one Get in CheckEvery, and the references made of it, an identity and
	// stacks. Meant for production.
	CheckSampled
	// CheckAll tracks every reference, finds uses of one that was handed over, and overwrites freed
	// slabs, to find writes to them. Meant for tests.
	CheckAll
	// CheckGuard does what CheckAll does and puts each slab in pages of its own, inaccessible from the
	// last Free on: a read through a slice kept too long faults; see Pool.ExplainFault. Where the platform has
	// no page protection, or when GuardBytes or the system's mappings are used up, it is CheckAll.
	CheckGuard
)

// String is the level's name as in TARN_CHECK.
func (l CheckLevel) String() string {
	switch l {
	case CheckOff:
		return "off"
	case CheckSampled:
		return "sampled"
	case CheckAll:
		return "all"
	case CheckGuard:
		return "guard"
	default:
		return "default"
	}
}

// PoolConfig configures a pool. The zero value takes all defaults.
type PoolConfig struct {
	// Name labels the pool in Stats, on the debug page and in metrics.
	Name string
	// Classes are the sizes of slabs in bytes, ascending; nil means DefaultClasses. The pool keeps
	// a copy.
	Classes []int
	// Retain bounds, in bytes, the slabs that the pool keeps for reuse; 0 means DefaultRetain, and
	// RetainNothing keeps none. It is exact: a slab counts from when it is made until the garbage collector
	// has taken it, whether in use or idle. A Get beyond the bound is served by a slab that is
	// dropped when freed, so Retain should cover what is usually in use at once. What is not used
	// for three garbage collections, or for four to eight seconds, is given up; all that is idle is
	// given up at a collection that finds the process within a tenth of its memory limit
	// (GOMEMLIMIT).
	Retain int64
	// Budget bounds, in bytes of slabs, what is in use, for Acquire; 0 means no bound.
	Budget int64
	// HighWater and LowWater are bytes in use: OnWatermark is called once when use rises to
	// HighWater, and once when it has fallen to LowWater after that. Calls come one at a time and in
	// order, with no lock held, on a goroutine that crossed a mark: the mark reported last is the one
	// that holds. It must not block.
	HighWater, LowWater int64
	OnWatermark         func(mark Watermark, inUse int64)
	// Zero says when memory is cleared.
	Zero ZeroPolicy
	// Check is the level of checks, CheckEvery the N of CheckSampled (0 means 1024), GuardBytes
	// what CheckGuard may map at once, in use and in quarantine, in whole pages (0 means 256 MiB).
	Check      CheckLevel
	CheckEvery int
	GuardBytes int64
	// Record says whether sizes are recorded.
	Record RecordPolicy
	// Observe is called with the beginning and the end of each slab's time out of the pool, to record
	// traces: on the goroutine of the Get, before it returns, and on that of the last Free, after it
	// took effect; by many at once. It must not block. With it, every Get takes the slow path.
	// Wrapped memory is left out.
	Observe func(Loan)
	// Report is called with each misuse that is found, from any goroutine: leaks, writes after free, refused foreign memory, and
	// uses and frees of freed references, for these on the goroutine of the call and before it panics, so that a program which
	// recovers learns of them. Nil prints to standard error what does not panic: the first of a kind and place with its stacks,
	// then a line for the second, the fourth, the eighth. Pool.Misuses has the counts in either case.
	Report func(Misuse)
}

const (
	defaultCheckEvery = 1024
	defaultGuardBytes = 256 << 20
)

// complete checks the config and fills in what was left out.
func (c PoolConfig) complete() (PoolConfig, error) {
	if c.Classes == nil {
		c.Classes = DefaultClasses()
	}
	if err := checkClasses(c.Classes); err != nil {
		return c, err
	}
	if c.Retain < RetainNothing {
		return c, fmt.Errorf("%w: Retain is %d; the only negative value is RetainNothing", ErrConfig, c.Retain)
	}
	for _, bound := range []struct {
		name  string
		value int64
	}{
		{"Budget", c.Budget}, {"HighWater", c.HighWater}, {"LowWater", c.LowWater},
		{"CheckEvery", int64(c.CheckEvery)}, {"GuardBytes", c.GuardBytes},
	} {
		if bound.value < 0 {
			return c, fmt.Errorf("%w: %s is %d; it cannot be negative", ErrConfig, bound.name, bound.value)
		}
	}
	switch {
	case c.LowWater > c.HighWater:
		return c, fmt.Errorf("%w: LowWater (%d) exceeds HighWater (%d)", ErrConfig, c.LowWater, c.HighWater)
	case c.HighWater > 0 && c.OnWatermark == nil:
		return c, fmt.Errorf("%w: HighWater without OnWatermark has no effect", ErrConfig)
	case c.Zero < ZeroNever || c.Zero > ZeroOnFree:
		return c, fmt.Errorf("%w: no ZeroPolicy %d", ErrConfig, c.Zero)
	case c.Check < CheckDefault || c.Check > CheckGuard:
		return c, fmt.Errorf("%w: no CheckLevel %d", ErrConfig, c.Check)
	case c.Record < RecordOn || c.Record > RecordOff:
		return c, fmt.Errorf("%w: no RecordPolicy %d", ErrConfig, c.Record)
	}
	if c.Retain == 0 {
		c.Retain = DefaultRetain
	}
	if c.Check == CheckDefault {
		c.Check, c.CheckEvery = checkFromEnvironment(os.Getenv("TARN_CHECK"), c.CheckEvery)
	}
	if c.CheckEvery == 0 {
		c.CheckEvery = defaultCheckEvery
	}
	if c.GuardBytes == 0 {
		c.GuardBytes = defaultGuardBytes
	}
	return c, nil
}

// every is the N of one tracked Get in N.
func (c PoolConfig) every() int {
	if c.Check == CheckSampled {
		return c.CheckEvery
	}
	return 1
}

// checkFromEnvironment reads the value of TARN_CHECK. A program must not fail to start over it, so
// a value that is not a level is named on standard error, once, and ignored.
func checkFromEnvironment(value string, every int) (CheckLevel, int) {
	level, n, counted := strings.Cut(value, ":")
	switch {
	case level == "sampled" && counted:
		k, err := strconv.ParseInt(n, 10, 32)
		if err != nil || k <= 0 {
			warnOfCheck()
			return CheckSampled, every
		}
		return CheckSampled, int(k)
	case value == "sampled":
		return CheckSampled, every
	case value == "all":
		return CheckAll, every
	case value == "guard":
		return CheckGuard, every
	case value != "" && value != "off":
		warnOfCheck()
	}
	return CheckOff, every
}

var warnOfCheck = sync.OnceFunc(func() {
	fmt.Fprintf(os.Stderr, "tarn: TARN_CHECK=%s is not understood; it is off, sampled, sampled:N, all or guard\n", os.Getenv("TARN_CHECK"))
})

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
