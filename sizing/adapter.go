package sizing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tarn-go/tarn"
)

// AdapterConfig says how an [Adapter] follows its pool. The zero value takes the defaults, which move
// seldom.
type AdapterConfig struct {
	// Every is how often the adapter looks. 0: a minute.
	Every time.Duration
	// Classes is the number of classes of the ladders it moves to. 0: as many as the pool has when the
	// adapter starts, at most 128.
	Classes int
	// MinGets is how many gets must have been recorded since the last look for the ladder to be
	// reconsidered; a look at fewer changes nothing, and they count at the next. A pool samples one get
	// in some hundreds, so small numbers are noise. 0: 100,000.
	MinGets uint64
	// Gain is how much less of what the pool hands out a new ladder must waste, as a share of all the
	// bytes handed out, to be moved to. 0: 0.02.
	Gain float64
	// Confirm is how many looks in a row must find that gain. 0: 3.
	Confirm int
	// OnMove, if not nil, is called after each move, on the adapter's goroutine.
	OnMove func(Move)
	// OnError, if not nil, is called with the error of each look that failed, on the adapter's goroutine.
	// The pool keeps its classes, and the next look tries again. See also [Adapter.Err].
	OnError func(error)
}

// Move is one change of a pool's ladder.
type Move struct {
	From, To []int   // the ladders; the callee may keep them
	Was, Is  float64 // shares of waste over what was recorded lately
	Pause    int     // looks until another move is possible
}

// Adapter moves a pool's ladder to the best one for what the pool recorded lately. It does not move back
// and forth: a move takes a lasting gain, and each move doubles the pause until the next, up to 128 looks,
// as long as moves keep coming; only a workload that is steady for sixteen pauses makes the pause shorter
// again. Get and Free run on without a further lock or allocation while it moves.
//
// What it recorded fades: each look counts half as much as the next, so a workload that alternates
// faster than it looks is seen as one mixed workload.
type Adapter struct {
	pool   ladderPool
	config AdapterConfig
	static []int

	mu      sync.Mutex
	last    Histogram // at the look before
	lately  Histogram // what was recorded, fading
	streak  int       // looks in a row that found a gain
	pause   int       // looks left before another move is possible
	quiet   int       // looks in a row that found none
	hurried int       // how often the pause was doubled
	moves   int
	err     error // of the last look
	stopped bool

	cancel context.CancelFunc
	done   chan struct{}
}

// ladderPool is what an adapter needs of a pool.
type ladderPool interface {
	Histogram() tarn.Histogram
	Classes() []int
	SetClasses([]int) error
}

// Defaults and bounds of an adapter.
const (
	defaultEvery   = time.Minute
	defaultMinGets = 100000
	defaultGain    = 0.02
	defaultConfirm = 3
	firstPause     = 4  // looks
	maxHurried     = 5  // doublings of it
	steady         = 16 // pauses without a gain to be found until one doubling is taken back
)

// Adapt starts an Adapter on p, which must record (PoolConfig.Record). It runs until [Adapter.Stop],
// [Adapter.Static] or the end of ctx, on one goroutine. An error matches ErrOptions and says that the
// configuration is invalid. Two adapters on one pool would work against each other: start one.
func Adapt(ctx context.Context, p *tarn.Pool, c AdapterConfig) (*Adapter, error) {
	return startAdapter(ctx, p, c)
}

func startAdapter(ctx context.Context, p ladderPool, c AdapterConfig) (*Adapter, error) {
	a, err := newAdapter(p, c)
	if err != nil {
		return nil, err
	}
	ctx, a.cancel = context.WithCancel(ctx)
	go a.run(ctx)
	return a, nil
}

func newAdapter(p ladderPool, c AdapterConfig) (*Adapter, error) {
	static := p.Classes()
	switch {
	case len(static) == 0:
		return nil, fmt.Errorf("%w: the pool has no classes", ErrOptions)
	case c.Every < 0:
		return nil, fmt.Errorf("%w: Every is %v; it cannot be negative", ErrOptions, c.Every)
	case c.Classes < 0 || c.Classes > MaxClasses:
		return nil, fmt.Errorf("%w: Classes is %d; it is 0 to %d", ErrOptions, c.Classes, MaxClasses)
	case !(c.Gain >= 0 && c.Gain < 1):
		return nil, fmt.Errorf("%w: Gain is %v; it is a share of 0 to less than 1", ErrOptions, c.Gain)
	case c.Confirm < 0:
		return nil, fmt.Errorf("%w: Confirm is %d; it cannot be negative", ErrOptions, c.Confirm)
	}
	a := &Adapter{pool: p, config: c, static: static, done: make(chan struct{}), cancel: func() {}}
	if a.config.Every == 0 {
		a.config.Every = defaultEvery
	}
	if a.config.Classes == 0 {
		a.config.Classes = min(len(a.static), adviceClasses)
	}
	if a.config.MinGets == 0 {
		a.config.MinGets = defaultMinGets
	}
	if a.config.Gain == 0 {
		a.config.Gain = defaultGain
	}
	if a.config.Confirm == 0 {
		a.config.Confirm = defaultConfirm
	}
	a.last = p.Histogram()
	return a, nil
}

func (a *Adapter) run(ctx context.Context) {
	defer close(a.done)
	ticker := time.NewTicker(a.config.Every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		m, moved, err := a.look()
		if moved && a.config.OnMove != nil {
			a.config.OnMove(m)
		}
		if err != nil && a.config.OnError != nil {
			a.config.OnError(err)
		}
	}
}

// Stop ends the adapter and leaves the ladder as it is. It waits for a look under way, so OnMove and OnError
// must not call it. It may be called more than once, and from any goroutine.
func (a *Adapter) Stop() {
	a.mu.Lock()
	a.stopped = true
	a.mu.Unlock()
	a.cancel()
	<-a.done
}

// Static ends the adapter as [Adapter.Stop] does and gives the pool the ladder that it had when the
// adapter started.
func (a *Adapter) Static() error {
	a.Stop()
	return a.pool.SetClasses(a.static)
}

// Moves is how often the ladder was moved.
func (a *Adapter) Moves() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.moves
}

// Err is the error of the last look at enough gets, nil if it had none: the best ladder could not be computed,
// or the pool did not take it.
func (a *Adapter) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// look reads the requests recorded since the last look and changes the classes if that pays.
func (a *Adapter) look() (m Move, moved bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		return Move{}, false, nil
	}
	past := a.lately
	fresh, enough := a.recorded()
	if !enough {
		return Move{}, false, nil
	}
	defer func() { a.err = err }()
	if err := Check(fresh); err != nil {
		return Move{}, false, fmt.Errorf("sizing: an adapter's look: %w", err)
	}
	a.fade(fresh)
	if a.pause > 0 {
		a.pause--
	}
	present := a.pool.Classes()
	gains, err := a.gains(present, past, fresh)
	if err != nil {
		a.streak = 0
		return Move{}, false, fmt.Errorf("sizing: an adapter's look: %w", err)
	}
	if !gains {
		a.streak = 0
		if a.quiet++; a.quiet >= steady*firstPause<<a.hurried && a.hurried > 0 {
			a.hurried, a.quiet = a.hurried-1, 0
		}
		return Move{}, false, nil
	}
	a.quiet = 0
	if a.streak++; a.streak < a.config.Confirm || a.pause > 0 {
		return Move{}, false, nil
	}
	m, err = a.move(present)
	if err != nil {
		return Move{}, false, fmt.Errorf("sizing: an adapter's move: %w", err)
	}
	a.streak, a.moves = 0, a.moves+1
	a.pause = firstPause << a.hurried
	a.hurried = min(a.hurried+1, maxHurried)
	m.Pause = a.pause
	return m, true, nil
}

// recorded returns what was recorded since the last look, and whether that is enough to be looked at; otherwise it
// counts at the next.
func (a *Adapter) recorded() (fresh Histogram, enough bool) {
	now := a.pool.Histogram()
	fresh = Since(now, a.last)
	gets := uint64(0)
	for _, s := range fresh.Sizes {
		gets = addSat(gets, s.Count)
	}
	if gets < a.config.MinGets {
		return fresh, false
	}
	a.last = now
	return fresh, true
}

// fade adds what is new to what was recorded lately, of which the rest fades by half.
func (a *Adapter) fade(fresh Histogram) {
	sizes := slices.Clone(fresh.Sizes)
	for _, s := range a.lately.Sizes {
		if n := s.Count / 2; n > 0 {
			sizes = append(sizes, newSizeCount(s.Size, n, requestedOf(s, n)))
		}
	}
	a.lately = Histogram{Every: fresh.Every, Sizes: merged(sizes)}
}

// gains reports whether the best ladder for the past would have wasted enough less than the present one
// over what came since. Both are samples; a ladder judged by the sample it was fitted to would seem to
// gain where there is only noise.
func (a *Adapter) gains(present []int, past, fresh Histogram) (bool, error) {
	to, err := a.best(past)
	if errors.Is(err, ErrEmpty) || slices.Equal(to, present) {
		return false, nil // nothing recorded yet, or only sizes above the largest class: there is nothing to improve
	}
	if err != nil {
		return false, err
	}
	was, errWas := Measure(fresh, present)
	is, errIs := Measure(fresh, to)
	if err := errors.Join(errWas, errIs); err != nil {
		return false, err
	}
	return is.Oversize <= was.Oversize && was.Share()-is.Share() >= a.config.Gain, nil
}

// best is the best ladder for h. The largest class of the static ladder stays a class, so that nothing
// stops being pooled.
func (a *Adapter) best(h Histogram) ([]int, error) {
	top := a.static[len(a.static)-1]
	o := Options{MinClass: cacheLine, Align: cacheLine, MaxClass: top, Forced: []int{top}}
	return SolveOptions(h, max(a.config.Classes, 2), o)
}

// move gives the pool the best ladder for all that was recorded lately.
func (a *Adapter) move(present []int) (Move, error) {
	to, err := a.best(a.lately)
	if err != nil {
		return Move{}, err
	}
	was, errWas := Measure(a.lately, present)
	is, errIs := Measure(a.lately, to)
	if err := errors.Join(errWas, errIs); err != nil {
		return Move{}, err // the pool keeps its classes
	}
	if err := a.pool.SetClasses(to); err != nil {
		return Move{}, err
	}
	return Move{From: present, To: to, Was: was.Share(), Is: is.Share()}, nil
}
