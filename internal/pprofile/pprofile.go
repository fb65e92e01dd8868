// Package pprofile writes profiles in the format of pprof (google/pprof, proto/profile.proto): gzipped
// protocol buffers that go tool pprof reads.
package pprofile

import (
	"compress/gzip"
	"io"
	"runtime"
	"time"
)

// ValueType names one value of each sample, such as {"pinned", "bytes"}.
type ValueType struct{ Type, Unit string }

// Sample is a stack, innermost frame first, with a value for each ValueType and a label.
type Sample struct {
	Stack      []uintptr
	Values     []int64
	Key, Label string // of the label; an empty Key is none
}

// Fields of the messages.
const (
	profileSampleType  = 1
	profileSample      = 2
	profileLocation    = 4
	profileFunction    = 5
	profileStringTable = 6
	profileTimeNanos   = 9
	typeType           = 1
	typeUnit           = 2
	sampleLocation     = 1
	sampleValue        = 2
	sampleLabel        = 3
	labelKey           = 1
	labelStr           = 2
	locationID         = 1
	locationAddress    = 3
	locationLine       = 4
	lineFunction       = 1
	lineLine           = 2
	functionID         = 1
	functionName       = 2
	functionSystemName = 3
	functionFilename   = 4
)

// Write writes a profile taken at the given time.
func Write(w io.Writer, at time.Time, types []ValueType, samples []Sample) error {
	b := builder{strings: map[string]uint64{}, locations: map[uintptr]uint64{}, functions: map[function]uint64{}}
	b.text("") // the first string is empty
	for _, t := range types {
		var m message
		m.number(typeType, b.text(t.Type))
		m.number(typeUnit, b.text(t.Unit))
		b.out.bytes(profileSampleType, m)
	}
	for _, s := range samples {
		var m, locations, values message
		for _, pc := range s.Stack {
			locations.varint(b.location(pc))
		}
		for _, v := range s.Values {
			values.varint(uint64(v))
		}
		m.bytes(sampleLocation, locations)
		m.bytes(sampleValue, values)
		if s.Key != "" {
			var l message
			l.number(labelKey, b.text(s.Key))
			l.number(labelStr, b.text(s.Label))
			m.bytes(sampleLabel, l)
		}
		b.out.bytes(profileSample, m)
	}
	b.out.number(profileTimeNanos, uint64(at.UnixNano()))
	for _, s := range b.table {
		b.out.bytes(profileStringTable, []byte(s))
	}
	z := gzip.NewWriter(w)
	if _, err := z.Write(b.out); err != nil {
		return err
	}
	return z.Close()
}

// builder collects what samples refer to.
type builder struct {
	out       message
	table     []string
	strings   map[string]uint64
	locations map[uintptr]uint64
	functions map[function]uint64
}

type function struct{ name, file string }

func (b *builder) text(s string) uint64 {
	i, ok := b.strings[s]
	if !ok {
		i = uint64(len(b.table))
		b.strings[s] = i
		b.table = append(b.table, s)
	}
	return i
}

// location is the number of a program counter, with a line for each function inlined there.
func (b *builder) location(pc uintptr) uint64 {
	id, ok := b.locations[pc]
	if ok {
		return id
	}
	id = uint64(len(b.locations) + 1)
	b.locations[pc] = id
	var m message
	m.number(locationID, id)
	m.number(locationAddress, uint64(pc))
	frames := runtime.CallersFrames([]uintptr{pc})
	for {
		f, more := frames.Next()
		var l message
		l.number(lineFunction, b.function(f))
		l.number(lineLine, uint64(f.Line))
		m.bytes(locationLine, l)
		if !more {
			break
		}
	}
	b.out.bytes(profileLocation, m)
	return id
}

func (b *builder) function(f runtime.Frame) uint64 {
	key := function{f.Function, f.File}
	id, ok := b.functions[key]
	if ok {
		return id
	}
	id = uint64(len(b.functions) + 1)
	b.functions[key] = id
	var m message
	m.number(functionID, id)
	m.number(functionName, b.text(f.Function))
	m.number(functionSystemName, b.text(f.Function))
	m.number(functionFilename, b.text(f.File))
	b.out.bytes(profileFunction, m)
	return id
}

// message is an encoded protocol buffer.
type message []byte

const (
	wireVarint = 0
	wireBytes  = 2
)

func (m *message) varint(v uint64) {
	for ; v >= 0x80; v >>= 7 {
		*m = append(*m, byte(v)|0x80)
	}
	*m = append(*m, byte(v))
}

func (m *message) number(field int, v uint64) {
	m.varint(uint64(field)<<3 | wireVarint)
	m.varint(v)
}

func (m *message) bytes(field int, p []byte) {
	m.varint(uint64(field)<<3 | wireBytes)
	m.varint(uint64(len(p)))
	*m = append(*m, p...)
}
