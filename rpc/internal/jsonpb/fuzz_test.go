package jsonpb

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// readBoth reads text by this package and by protojson, and fails if the one accepts what the other does not, or
// the messages differ. It reports whether protojson was not needed, and what the message is, nil if it is none.
func readBoth(t *testing.T, pool *tarn.Pool, mt protoreflect.MessageType, text []byte) (bool, proto.Message) {
	want, got := mt.New().Interface(), mt.New().Interface()
	err := protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, want)
	ok := transcode(pool, text, got)
	if !ok {
		if err != nil {
			return false, nil
		}
		return false, want
	}
	if err != nil {
		t.Fatalf("%s: %q is accepted, for protojson it is: %v", mt.Descriptor().FullName(), text, err)
	}
	if a, b := wireOf(t, want), wireOf(t, got); !bytes.Equal(a, b) || !proto.Equal(want, got) {
		t.Fatalf("%s: %q is\n%x, for protojson\n%x", mt.Descriptor().FullName(), text, b, a)
	}
	return true, want
}

func wireOf(t *testing.T, m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true, AllowPartial: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// writeBoth writes m by this package and by protojson, and fails if the texts differ. It reports whether protojson was
// not needed, and the text, nil if there is none.
func writeBoth(t *testing.T, pool *tarn.Pool, m proto.Message) (bool, []byte) {
	want, err := protojson.Marshal(m)
	w := new(writer)
	if !w.marshal(pool, 0, m) {
		return false, want
	}
	b := w.take()
	defer b.Free()
	if err != nil {
		t.Fatalf("%s is %s, for protojson it is: %v", m.ProtoReflect().Descriptor().FullName(), b.Bytes(), err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, want); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(compact.Bytes(), b.Bytes()) {
		t.Fatalf("%s is\n%s, for protojson\n%s", m.ProtoReflect().Descriptor().FullName(), b.Bytes(), compact.Bytes())
	}
	return true, want
}

// FuzzRead reads arbitrary text as a message of each type, and writes what it was.
func FuzzRead(f *testing.F) {
	all := types(f)
	for i := range all {
		f.Add(uint8(i), []byte(`{"text":"a\u00e9\n\ud83d\ude00","i32":[1,-2],"number":"9007199254740993","due":"2026-01-02T03:04:05.678Z"}`))
	}
	f.Fuzz(func(t *testing.T, n uint8, text []byte) {
		pool := tarntest.NewPool(t)
		if _, m := readBoth(t, pool, all[int(n)%len(all)], text); m != nil {
			writeBoth(t, pool, m)
		}
	})
}

// FuzzWrite writes messages of arbitrary wire format, and reads what was written.
func FuzzWrite(f *testing.F) {
	all := types(f)
	for i := range all {
		f.Add(uint8(i), []byte{8, 1, 18, 3, 'a', 'b', 'c'})
	}
	f.Fuzz(func(t *testing.T, n uint8, wire []byte) {
		mt := all[int(n)%len(all)]
		m := mt.New().Interface()
		if (proto.UnmarshalOptions{AllowPartial: true}).Unmarshal(wire, m) != nil {
			return
		}
		pool := tarntest.NewPool(t)
		if _, text := writeBoth(t, pool, m); text != nil {
			readBoth(t, pool, mt, text)
		}
	})
}
