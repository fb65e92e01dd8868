package message

import (
	"errors"
	"testing"

	"github.com/tarn-go/tarn/rpc/internal/kept"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// unsafeMessage has vtprotobuf's method.
type unsafeMessage struct {
	*wrapperspb.StringValue
	src []byte
	err error
}

func (m *unsafeMessage) UnmarshalVTUnsafe(src []byte) error {
	m.src = src
	return m.err
}

// TestLendToVTProtobuf: a message with vtprotobuf's unsafe method has the memory until it is released, after an error, too; and not at all
// where only long bytes fields are lent, or what is kept is looked for.
func TestLendToVTProtobuf(t *testing.T) {
	pool := tarntest.NewPool(t)
	encoded, err := proto.Marshal(wrapperspb.String("a string"))
	if err != nil {
		t.Fatal(err)
	}
	received := func() Message {
		b := pool.Get(len(encoded))
		copy(b.Bytes(), encoded)
		return Message{Buf: b}
	}
	for _, want := range []error{nil, errors.New("of the test")} {
		l := Lease{Scope: Views}
		m := &unsafeMessage{StringValue: new(wrapperspb.StringValue), err: want}
		if err := l.Decode(pool, Proto{}, received(), m); err != want || string(m.src) != string(encoded) || l.Size() != len(encoded) {
			t.Errorf("%v: %v, %q, %d bytes are held", want, err, m.src, l.Size())
		}
		l.Release()
	}
	for what, l := range map[string]*Lease{
		"long bytes": {},
		"a sample":   {Scope: Views, Finder: kept.NewFinder("/a.B/C", 1, func(kept.Field) {})},
	} {
		m := &unsafeMessage{StringValue: new(wrapperspb.StringValue)}
		if err := l.Decode(pool, Proto{}, received(), m); err != nil || m.src != nil || m.Value != "a string" {
			t.Errorf("%s: %v, %q, %q", what, err, m.src, m.Value)
		}
		l.Release()
	}
}
