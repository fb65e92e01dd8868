package sizing

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Op is what happened at one point of a trace.
type Op uint8

// The operations of a trace.
const (
	OpGet   Op = iota // a buffer of Arg bytes was asked for
	OpFree            // the buffer of get number Arg, counted from 0, was returned
	OpCycle           // a collection cycle began; Arg is 0
)

// Event is one line of a trace.
type Event struct {
	Op  Op
	Arg int
}

// Trace is what a program asked of its pool, in order. Buffers never freed were still out when
// recording stopped. A Trace read by [ReadTrace] is well formed: every free names an earlier get that
// is still out.
type Trace struct {
	Notes  []string // what was recorded, and how
	Events []Event
}

// MaxEvents bounds the events of a trace that is read.
const MaxEvents = 1 << 24

// traceMagic opens a trace's text form. Then follow notes, lines beginning with '#'; then one event
// a line: "+4096" a get of 4096 bytes, "-3" the end of the buffer got three gets before the latest
// ("-0" is the latest), "!" a collection cycle. Frees count backwards because most buffers live
// briefly, so that the text is small and compresses well.
const traceMagic = "tarn-trace 1"

// WriteTo writes t in its text form, uncompressed. Events must be well formed.
func (t Trace) WriteTo(w io.Writer) (int64, error) {
	var out bytes.Buffer
	out.WriteString(traceMagic + "\n")
	for _, n := range t.Notes {
		out.WriteString("# " + strings.ReplaceAll(n, "\n", " ") + "\n")
	}
	gets := 0
	for _, e := range t.Events {
		switch e.Op {
		case OpGet:
			gets++
			out.WriteString("+" + strconv.Itoa(e.Arg) + "\n")
		case OpFree:
			out.WriteString("-" + strconv.Itoa(gets-1-e.Arg) + "\n")
		default:
			out.WriteString("!\n")
		}
	}
	return out.WriteTo(w)
}

// ReadTrace reads the text form, compressed by gzip or not. It allocates by what it reads, never by
// what the input declares, and stops at [MaxEvents]. Errors match ErrMalformed, naming the line,
// ErrEmpty or ErrTooLarge; errors of r itself are returned wrapped.
func ReadTrace(r io.Reader) (Trace, error) {
	in := bufio.NewReader(r)
	if head, err := in.Peek(2); err == nil && head[0] == 0x1f && head[1] == 0x8b {
		z, err := gzip.NewReader(in)
		if err != nil {
			return Trace{}, fmt.Errorf("%w: %v", ErrMalformed, err)
		}
		defer z.Close()
		in = bufio.NewReader(z)
	}
	lines := bufio.NewScanner(in)
	p := traceParser{}
	for lines.Scan() {
		if err := p.line(lines.Text()); err != nil {
			return Trace{}, err
		}
	}
	if err := lines.Err(); err != nil {
		return Trace{}, fmt.Errorf("sizing: reading a trace: %w", err)
	}
	if len(p.out) == 0 {
		return Trace{}, fmt.Errorf("%w: the trace has no gets", ErrEmpty)
	}
	return p.trace, nil
}

// traceParser checks each line against those before it.
type traceParser struct {
	trace Trace
	out   []bool // by get number: still out
	n     int    // lines seen
}

func (p *traceParser) line(s string) error {
	p.n++
	if p.n == 1 {
		if s != traceMagic {
			return fmt.Errorf("%w: not a trace: it begins %.20q", ErrMalformed, s)
		}
		return nil
	}
	if len(p.trace.Events) == MaxEvents {
		return fmt.Errorf("%w: more than %d events", ErrTooLarge, MaxEvents)
	}
	switch {
	case s == "":
		return nil
	case s[0] == '#':
		if len(p.trace.Notes) < 64 {
			p.trace.Notes = append(p.trace.Notes, strings.TrimSpace(s[1:]))
		}
		return nil
	case s == "!":
		p.trace.Events = append(p.trace.Events, Event{Op: OpCycle})
		return nil
	}
	v, err := strconv.Atoi(s[1:])
	if err != nil || v < 0 {
		return fmt.Errorf("%w: line %d: %.20q", ErrMalformed, p.n, s)
	}
	switch s[0] {
	case '+':
		if v > MaxSize {
			return fmt.Errorf("%w: line %d: a get of %d bytes, at most %d are taken", ErrTooLarge, p.n, v, MaxSize)
		}
		if v < 1 {
			return fmt.Errorf("%w: line %d: a get of %d bytes", ErrMalformed, p.n, v)
		}
		p.out = append(p.out, true)
		p.trace.Events = append(p.trace.Events, Event{OpGet, v})
	case '-':
		get := len(p.out) - 1 - v
		if get < 0 || !p.out[get] {
			return fmt.Errorf("%w: line %d: frees a buffer that is not out", ErrMalformed, p.n)
		}
		p.out[get] = false
		p.trace.Events = append(p.trace.Events, Event{OpFree, get})
	default:
		return fmt.Errorf("%w: line %d: %.20q", ErrMalformed, p.n, s)
	}
	return nil
}

// Histogram counts the trace's gets by exact size, and lifetimes in whole collection cycles.
func (t Trace) Histogram() Histogram {
	sizes, lives := map[int]uint64{}, map[int]uint64{}
	var born []int
	cycle := 0
	for _, e := range t.Events {
		switch e.Op {
		case OpGet:
			sizes[e.Arg]++
			born = append(born, cycle)
		case OpFree:
			lives[cycle-born[e.Arg]]++
		case OpCycle:
			cycle++
		}
	}
	h := Histogram{Every: 1}
	for size, count := range sizes {
		h.Sizes = append(h.Sizes, SizeCount{Size: size, Count: count})
	}
	h.Sizes = merged(h.Sizes)
	for c := 0; len(lives) > 0; c++ {
		if n, ok := lives[c]; ok {
			h.Lifetimes = append(h.Lifetimes, LifeCount{Cycles: c, Count: n})
			delete(lives, c)
		}
	}
	return h
}
