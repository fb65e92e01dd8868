package driver

import (
	"bytes"
	"math"
	"reflect"
	"testing"
	"testing/quick"
)

// What encode and format write, decode and parse read.
func TestForms(t *testing.T) {
	check := func(one []byte, text string, b bool, i int, i8 int8, u16 uint16, r rune, u64 uint64, last []byte) bool {
		values := []any{append([]byte{}, one...), text, b, i, i8, u16, r, u64, append([]byte{}, last...)}
		var types []reflect.Type
		for _, v := range values {
			types = append(types, reflect.TypeOf(v))
		}
		kept, err := parse(format(values))
		return err == nil && reflect.DeepEqual(decode(types, encode(values)), values) && reflect.DeepEqual(kept, values)
	}
	if err := quick.Check(check, nil); err != nil {
		t.Error(err)
	}
	if !check(nil, "", true, math.MinInt, -1, math.MaxUint16, 'x', math.MaxUint64, []byte("\xff\n\"")) {
		t.Error("the ends of the ranges")
	}
}

// A target of one slice or string gets the input as it is, and any input has values.
func TestDecode(t *testing.T) {
	types := func(values ...any) (types []reflect.Type) {
		for _, v := range values {
			types = append(types, reflect.TypeOf(v))
		}
		return types
	}
	for _, tt := range []struct {
		types []reflect.Type
		in    string
		want  []any
	}{
		{types([]byte(nil)), "abc", []any{[]byte("abc")}},
		{types(""), "", []any{""}},
		{types(uint16(0), ""), "\x01", []any{uint16(1 << 8), ""}},
		{types("", ""), "\x00\x00\x00\x01ab", []any{"a", "b"}},
		{types("", ""), "\xff\xff\xff\xffab", []any{"ab", ""}},
		{types("", ""), "\x00", []any{"", ""}},
		{types([]byte(nil), int8(0)), "\x00\x00\x00\x00\xff", []any{[]byte{}, int8(-1)}},
	} {
		if got := decode(tt.types, []byte(tt.in)); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%q: %#v, want %#v", tt.in, got, tt.want)
		}
	}
}

// Seeds as go test and its users write them.
func TestParse(t *testing.T) {
	got, err := parse([]byte("go test fuzz v1\n[]byte(\"\\x00a\")\nstring(`b`)\nbyte('\\x80')\nrune('ä')\nuint16(0x10)\nint(-3)\nbool(true)\n"))
	if want := []any{[]byte("\x00a"), "b", byte(0x80), 'ä', uint16(16), -3, true}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%#v, %v", got, err)
	}
	for _, text := range []string{"", "go test fuzz v2\nint(1)", "go test fuzz v1\n1", "go test fuzz v1\nint(1, 2)", "go test fuzz v1\nint8(300)", "go test fuzz v1\nfloat64(1)", "go test fuzz v1\nint("} {
		if got, err := parse([]byte(text)); err == nil {
			t.Errorf("%q is %#v", text, got)
		}
	}
}

// TestWorker runs a target as libFuzzer does, in the process of this test: a call at a time, its failures as panics with the seed.
func TestWorker(t *testing.T) {
	target := &Target{inputs: make(chan []any), errs: make(chan error)}
	d := deps{target}
	seeds := []entry{{Values: []any{[]byte("added"), uint8(7)}}, {Path: "read from a file"}}
	if err := d.CoordinateFuzzing(0, 0, 0, 0, 0, seeds, []reflect.Type{reflect.TypeFor[[]byte](), reflect.TypeFor[uint8]()}, "", ""); err != nil {
		t.Fatal(err)
	}
	if len(target.seeds) != 1 {
		t.Errorf("%d seeds", len(target.seeds))
	}
	go d.RunFuzzWorker(func(e entry) error {
		if bytes.Equal(e.Values[0].([]byte), []byte("bad")) {
			return errBad{}
		}
		return nil
	})
	<-target.errs
	target.Run(encode([]any{[]byte("good"), uint8(1)}))
	defer func() {
		if got, want := recover(), "bad input\nthe input as a seed:\ngo test fuzz v1\n[]byte(\"bad\")\nuint8(2)\n"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}()
	target.Run(encode([]any{[]byte("bad"), uint8(2)}))
}

type errBad struct{}

func (errBad) Error() string { return "bad input" }
