package jsonpb

import (
	"bytes"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// The limits of timestamps and durations.
const (
	firstSecond = -62135596800 // 0001-01-01T00:00:00Z
	lastSecond  = 253402300799 // 9999-12-31T23:59:59Z
	maxSeconds  = 315576000000
	maxNanos    = 999999999
)

// pair writes a google.protobuf.Timestamp or Duration.
func (w *writer) pair(p *plan, wire []byte) bool {
	var v [2]uint64
	for len(wire) > 0 {
		i := 0
		if uint64(wire[0]) != p.fields[0].tag {
			i = 1
		}
		n := -1
		if uint64(wire[0]) == p.fields[i].tag {
			v[i], n = p.fields[i].consume(wire[1:])
		}
		if n < 0 {
			return false
		}
		wire = wire[1+n:]
	}
	if p.form == timestamp {
		return w.timestamp(int64(v[0]), int64(v[1]))
	}
	return w.duration(int64(v[0]), int64(v[1]))
}

// wrapped writes the value of a message like google.protobuf.Int64Value, whose field is f.
func (w *writer) wrapped(f *field, wire []byte) bool {
	switch {
	case len(wire) > 0:
		return w.one(f, wire) == len(wire)
	case f.number == none:
		return w.text(nil)
	}
	w.scalar(f, 0)
	return true
}

// timestamp writes a google.protobuf.Timestamp.
func (w *writer) timestamp(seconds, nanos int64) bool {
	if seconds < firstSecond || seconds > lastSecond || nanos < 0 || nanos > maxNanos {
		return false
	}
	w.b = append(w.b, '"')
	w.b = time.Unix(seconds, 0).UTC().AppendFormat(w.b, time.RFC3339)
	w.b = w.b[:len(w.b)-len("Z")]
	w.fraction(nanos)
	w.b = append(w.b, 'Z', '"')
	return true
}

// duration writes a google.protobuf.Duration.
func (w *writer) duration(seconds, nanos int64) bool {
	if seconds < -maxSeconds || seconds > maxSeconds || nanos < -maxNanos || nanos > maxNanos ||
		seconds > 0 && nanos < 0 || seconds < 0 && nanos > 0 {
		return false
	}
	w.b = append(w.b, '"')
	if seconds < 0 || nanos < 0 {
		w.b = append(w.b, '-')
		seconds, nanos = -seconds, -nanos
	}
	w.b = strconv.AppendInt(w.b, seconds, 10)
	w.fraction(nanos)
	w.b = append(w.b, 's', '"')
	return true
}

// fraction writes nanoseconds with 0, 3, 6 or 9 digits after a point.
func (w *writer) fraction(nanos int64) {
	if nanos == 0 {
		return
	}
	digits := 9
	for nanos%1000 == 0 {
		nanos /= 1000
		digits -= 3
	}
	from := len(w.b)
	w.b = strconv.AppendInt(w.b, nanos+pow10[digits], 10) // a 1 in front keeps the zeros
	w.b[from] = '.'
}

var pow10 = [...]int64{3: 1e3, 6: 1e6, 9: 1e9}

// timestamp reads a google.protobuf.Timestamp.
func (r *reader) timestamp() bool {
	text, ok := r.quoted()
	// protojson permits nine digits of a second.
	longest := len("2006-01-02T15:04:05.999999999+07:00")
	if bytes.HasSuffix(text, []byte("Z")) {
		longest = len("2006-01-02T15:04:05.999999999Z")
	}
	var t time.Time
	if !ok || len(text) > longest || t.UnmarshalText(text) != nil || t.Unix() < firstSecond || t.Unix() > lastSecond {
		return false
	}
	r.pair(t.Unix(), int64(t.Nanosecond()))
	return true
}

// duration reads a google.protobuf.Duration, with digits before and after a point.
func (r *reader) duration() bool {
	if !r.skip('"') {
		return false
	}
	negative := r.literal("-")
	from := r.at
	n := r.digits()
	if n == 0 || n > len("315576000000") || n > 1 && r.text[from] == '0' {
		return false
	}
	seconds, _ := strconv.ParseInt(string(r.text[from:r.at]), 10, 64)
	var nanos int64
	if r.literal(".") {
		from = r.at
		if n = r.digits(); n == 0 || n > 9 {
			return false
		}
		nanos, _ = strconv.ParseInt(string(r.text[from:r.at]), 10, 64)
		for range 9 - n {
			nanos *= 10
		}
	}
	if seconds > maxSeconds || !r.literal(`s"`) {
		return false
	}
	if negative {
		seconds, nanos = -seconds, -nanos
	}
	r.pair(seconds, nanos)
	return true
}

// pair writes the content of a Timestamp or Duration.
func (r *reader) pair(seconds, nanos int64) {
	r.reserve(fixedLen)
	r.b = append(r.b, 1<<3)
	r.b = protowire.AppendVarint(r.b, uint64(seconds))
	r.b = append(r.b, 2<<3)
	r.b = protowire.AppendVarint(r.b, uint64(nanos))
}
