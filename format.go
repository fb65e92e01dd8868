package tarn

import (
	"fmt"
	"log/slog"
)

// This file is how values print and log: by their sizes, never by the bytes that they hold.

// number is n with the noun that it counts, which is a regular one.
func number[N int | int32 | int64 | uint64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// String says how many bytes b shows of how large a slab. It works on a Buffer that was freed, too.
func (b Buffer) String() string {
	if b.slab == nil {
		return "no Buffer"
	}
	return fmt.Sprintf("Buffer of %s in a slab of %d", number(b.n, "byte"), b.slab.Size())
}

// LogValue logs b by its length and the size of its slab, in bytes.
func (b Buffer) LogValue() slog.Value {
	return slog.GroupValue(slog.Int("len", b.n), slog.Int("pinned", b.Pinned()))
}

// String says how many bytes c holds in how many segments.
func (c Chain) String() string {
	return fmt.Sprintf("Chain of %s in %s", number(c.bytes, "byte"), number(c.n, "segment"))
}

// LogValue logs c by its length in bytes and its segments.
func (c Chain) LogValue() slog.Value {
	return slog.GroupValue(slog.Int("len", c.bytes), slog.Int("segments", int(c.n)))
}

// String is the snapshot on one line, without the classes.
func (st Stats) String() string {
	return fmt.Sprintf("pool %q: %s (%s) in use, %s idle, %s (%.1f %% hits), %d leaked",
		st.Name, number(st.InUseBuffers, "buffer"), number(st.InUse, "byte"), number(st.Idle, "byte"), number(st.Gets, "get"), 100*float64(st.Hits)/float64(max(st.Gets, 1)), st.Leaked)
}

// LogValue logs the snapshot without the classes.
func (st Stats) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("pool", st.Name), slog.Int64("in_use", st.InUse), slog.Int64("in_use_buffers", st.InUseBuffers),
		slog.Int64("idle", st.Idle), slog.Uint64("gets", st.Gets), slog.Uint64("misses", st.Misses),
		slog.Uint64("leaked", st.Leaked), slog.Uint64("over_budget", st.OverBudget), slog.Int("waiting", st.Waiting),
	)
}

// String is that of the pool's Stats. It is safe for concurrent use, as Stats is. A pool that is not ready
// for use is "no Pool".
func (p *Pool) String() string {
	if p == nil || !p.depot.Ready() {
		return "no Pool"
	}
	return p.Stats().String()
}

// LogValue logs the pool's Stats without the classes.
func (p *Pool) LogValue() slog.Value {
	if p == nil || !p.depot.Ready() {
		return slog.StringValue(p.String())
	}
	return p.Stats().LogValue()
}

// String is the mark in words.
func (w Watermark) String() string {
	switch w {
	case AboveHigh:
		return "above high"
	case BelowLow:
		return "below low"
	default:
		return fmt.Sprintf("watermark %d", int(w))
	}
}
