package jsonpb

import (
	"strings"
	"testing"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/rpc/internal/testpb"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// TestReadsByItself has texts of ordinary clients, which are read without protojson, and others which are not.
func TestReadsByItself(t *testing.T) {
	const itself, protojson = true, false
	for _, c := range []struct {
		into proto.Message
		text string
		want bool
	}{
		{&testpb.Scalars{}, `{}`, itself},
		{&testpb.Scalars{}, " {\n\t\"flag\" : true ,\r\n \"i32\": -5 } ", itself},
		{&testpb.Scalars{}, `{"i64":"-9223372036854775808","u64":"18446744073709551615","s64":-1,"f64":9007199254740993}`, itself},
		{&testpb.Scalars{}, `{"single":1.5e-3,"doubleOne":"NaN","double_one":null}`, protojson}, // twice
		{&testpb.Scalars{}, `{"single":"-Infinity","double_one":1E22}`, itself},
		{&testpb.Scalars{}, `{"text":"caf\u00e9 \ud83d\ude00 \"x\" 日本","data":"AAEC","@strange name":"y"}`, itself},
		{&testpb.Scalars{}, `{"color":"CRIMSON"}`, itself},
		{&testpb.Scalars{}, `{"color":7}`, itself},
		{&testpb.Scalars{}, `{"t\u0065xt":"x"}`, itself},
		{&testpb.Scalars{}, `{"new":{"a":[1,{"b":null}],"c":"\n"},"text":"x"}`, itself},
		{&testpb.Scalars{}, `{"i32":1.0}`, protojson},
		{&testpb.Scalars{}, `{"data":"-_8"}`, protojson},
		{&testpb.Scalars{}, `{"color":"NEW"}`, protojson},
		{&testpb.Scalars{}, `{"text":"` + strings.Repeat("long ", 1<<18) + `"}`, itself},
		{&testpb.Lists{}, `{"i32":[],"text":["a",""],"scalars":[{},{"flag":true}],"single":[0,"NaN"]}`, itself},
		{&testpb.Maps{}, `{"text":{"a":"1","\u0062":"2"},"i32":{"-1":""},"flag":{"true":{},"false":{}},"times":{"x":"2026-01-02T03:04:05Z"}}`, itself},
		{&testpb.Maps{}, `{"text":{"a":"1","\u0061":"2"}}`, protojson}, // twice
		{&testpb.Choices{}, `{"choices":{"text":""},"right":"x","flag":null}`, itself},
		{&testpb.Known{}, `{"time":"2026-01-02T03:04:05.123456789+01:00","duration":"-1.5s","i64":"5","text":null,"empty":{},"texts":["a"]}`, itself},
		{&testpb.Known{}, `{"mask":"a,b"}`, protojson},
		{&timestamppb.Timestamp{}, `"2026-01-02T03:04:05Z"`, itself},
		{&testpb.Legacy{}, `{"part":{"partText":"x"},"Parts":[{"count":1}],"required":{"text":"x"}}`, itself},
		{&testpb.Legacy{}, `{"[tarn.jsonpb.test.extra]":"x"}`, protojson},
		{&testpb.Opaque{}, `{"lazy":{"lazy":{"text":"x"}},"number":"0","right":{"list":[{}]}}`, itself},
		{&testpb.Everything{}, strings.Repeat(`{"everything":`, maxDepth-1) + `{}` + strings.Repeat(`}`, maxDepth-1), itself},
		{&testpb.Everything{}, strings.Repeat(`{"everything":`, maxDepth) + `{}` + strings.Repeat(`}`, maxDepth), protojson},
		{&testpb.Everything{}, strings.Repeat(`{"more":[`, maxDepth-1) + `{}` + strings.Repeat(`]}`, maxDepth-1), itself},
	} {
		ok, m := readBoth(t, tarntest.NewPool(t), c.into.ProtoReflect().Type(), []byte(c.text))
		if ok != c.want || ok && m == nil {
			t.Errorf("%.80s is read by itself: %t", c.text, ok)
		}
	}
}

// TestDepth reads messages at protojson's limit, and writes one near to it.
func TestDepth(t *testing.T) {
	pool := tarntest.NewPool(t)
	for _, depth := range []int{protowire.DefaultRecursionLimit - 1, protowire.DefaultRecursionLimit} {
		text := []byte(strings.Repeat(`{"everything":`, depth) + `{}` + strings.Repeat(`}`, depth))
		err := Unmarshal(pool, text, new(testpb.Everything))
		if (err == nil) != (depth < protowire.DefaultRecursionLimit) {
			t.Errorf("%d levels: %v", depth, err)
		}
	}
	m := new(testpb.Everything)
	for range 9_000 { // encoding/json, which compares, has a limit of 10,000, too
		m = &testpb.Everything{Everything: m}
	}
	if ok, _ := writeBoth(t, pool, m); !ok {
		t.Error("protojson wrote")
	}
}

// TestWritesByItself has messages that are written without protojson, and others which are not.
func TestWritesByItself(t *testing.T) {
	const itself, protojson = true, false
	extended := &testpb.Legacy{Number: proto.Int32(0)}
	proto.SetExtension(extended, testpb.E_Extra, "x")
	unknown := &testpb.Order{Id: "x"}
	unknown.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 999, protowire.VarintType), 1))
	any, err := anypb.New(&testpb.Scalars{})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		m    proto.Message
		want bool
	}{
		"order":             {order(), itself},
		"no message":        {(*testpb.Order)(nil), itself},
		"nil in a list":     {&testpb.Order{Items: []*testpb.Order_Item{nil}}, itself},
		"unknown field":     {unknown, itself},
		"oneof":             {&testpb.Choices{Choice: &testpb.Choices_Flag{}, After: "x", Other: &testpb.Choices_Left{}}, itself},
		"map":               {&testpb.Maps{U32: map[uint32]testpb.Color{5: 5, 1 << 31: 0, 0: testpb.Color_RED}, Flag: map[bool]*testpb.Scalars{true: nil, false: {}}}, itself},
		"declared in order": {&testpb.Scalars{Text: "x", Flag: true}, itself},
		"known":             {&testpb.Known{Time: &timestamppb.Timestamp{Seconds: 1764200000, Nanos: 1}, Empty: &emptypb.Empty{}}, itself},
		"group":             {&testpb.Legacy{Part: &testpb.Legacy_Part{PartText: proto.String("")}}, itself},
		"not UTF-8":         {&testpb.Legacy{Text: proto.String("\xff")}, protojson},
		"required":          {&testpb.Legacy{Required: &testpb.Required{}}, protojson},
		"extension":         {extended, protojson},
		"out of range":      {&testpb.Known{Time: &timestamppb.Timestamp{Nanos: -1}}, protojson},
		"any":               {&testpb.Known{Any: any}, protojson},
	} {
		if ok, _ := writeBoth(t, tarntest.NewPool(t), c.m); ok != c.want {
			t.Errorf("%s is written by itself: %t", name, ok)
		}
	}
}

// TestUnknownFieldThatIsKnown: a message with an unknown field that its type has is written with that field, as it would be in
// wire format.
func TestUnknownFieldThatIsKnown(t *testing.T) {
	m := new(testpb.Order)
	m.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "x"))
	b, err := Marshal(tarntest.NewPool(t), 0, m)
	if err != nil || string(b.Bytes()) != `{"id":"x"}` {
		t.Errorf("%s, %v", b.Bytes(), err)
	}
	b.Free()
}

// TestErrors: the errors are protojson's.
func TestErrors(t *testing.T) {
	pool := tarntest.NewPool(t)
	for _, text := range []string{``, `{`, `{"flag":1}`, `{"flag":true}}`, `{"flag":true,}`, `{"i32":2147483648}`, `{"text":"` + "\xff" + `"}`, `{"new":01}`, `[]`} {
		want := protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal([]byte(text), new(testpb.Scalars))
		if got := Unmarshal(pool, []byte(text), new(testpb.Scalars)); got == nil || want == nil || got.Error() != want.Error() {
			t.Errorf("%s: %v, for protojson %v", text, got, want)
		}
	}
	if _, err := Marshal(pool, 0, &testpb.Required{}); err == nil {
		t.Error("a required field is missing")
	}
}

// TestHeadroom: the bytes in front of the text are there, for short and long text, and for text of protojson.
func TestHeadroom(t *testing.T) {
	pool := tarntest.NewPool(t)
	for _, m := range []proto.Message{&testpb.Scalars{Flag: true}, &testpb.Scalars{Text: strings.Repeat("\x01", 10_000)}, &testpb.Known{Any: &anypb.Any{}}} {
		b, err := Marshal(pool, 14, m)
		if err != nil {
			t.Fatal(err)
		}
		got := m.ProtoReflect().New().Interface()
		if err := protojson.Unmarshal(b.Bytes()[14:], got); err != nil || !proto.Equal(got, m) {
			t.Errorf("%s: %v", b.Bytes()[14:], err)
		}
		b.Free()
	}
}

// TestAllocations: the conversions allocate nothing beside protobuf's own.
func TestAllocations(t *testing.T) {
	pool := tarn.Shared()
	for name, m := range cases() {
		wire, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		buf, err := Marshal(pool, 0, m)
		if err != nil {
			t.Fatal(err)
		}
		text := buf.Bytes()
		into := m.ProtoReflect().New().Interface()
		dst := make([]byte, 0, len(wire))
		allocs := func(f func() error) float64 {
			return testing.AllocsPerRun(200, func() {
				if err := f(); err != nil {
					t.Fatal(err)
				}
			})
		}
		want := allocs(func() error {
			_, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(dst, m)
			return err
		})
		got := allocs(func() error {
			b, err := Marshal(pool, 0, m)
			b.Free()
			return err
		})
		if got > want+dropped {
			t.Errorf("%s: Marshal allocates %v times, protobuf %v", name, got, want)
		}
		want = allocs(func() error { return proto.Unmarshal(wire, into) })
		if got := allocs(func() error { return Unmarshal(pool, text, into) }); got > want+dropped {
			t.Errorf("%s: Unmarshal allocates %v times, protobuf %v", name, got, want)
		}
		buf.Free()
	}
}
