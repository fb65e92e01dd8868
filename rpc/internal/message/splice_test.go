package message

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// lengthen makes some bytes fields of m long enough to be spliced.
func lengthen(rng *rand.Rand, m protoreflect.Message) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		blob := func() protoreflect.Value {
			return protoreflect.ValueOfBytes(fill(SpliceFrom - 1 + rng.IntN(3)))
		}
		switch {
		case fd.Kind() == protoreflect.BytesKind && fd.IsList():
			for i := range v.List().Len() {
				if rng.IntN(2) == 0 {
					v.List().Set(i, blob())
				}
			}
		case fd.Kind() == protoreflect.BytesKind && rng.IntN(2) == 0:
			m.Set(fd, blob())
		case fd.Kind() == protoreflect.MessageKind && fd.IsList():
			for i := range v.List().Len() {
				lengthen(rng, v.List().Get(i).Message())
			}
		case fd.Kind() == protoreflect.MessageKind:
			lengthen(rng, v.Message())
		}
		return true
	})
}

// A spliced message parses as the message that was marshalled, and leaves it unchanged.
func TestSplicedParsesAsTheMessage(t *testing.T) {
	pool := tarntest.NewPool(t)
	md := node(t)
	rng := rand.New(rand.NewPCG(5, 6))
	spliced := 0
	messages := rounds(100)
	for range messages {
		src := grow(rng, md, 2)
		lengthen(rng, src)
		before := proto.Clone(src.Interface())
		m, err := Spliced{}.Marshal(pool, src.Interface())
		if err != nil {
			t.Fatal(err)
		}
		if m.Chain != nil {
			spliced++
		}
		got := dynamicpb.NewMessage(md)
		if err := proto.Unmarshal(m.Flatten(), got); err != nil || !proto.Equal(got, src.Interface()) || !proto.Equal(before, src.Interface()) {
			t.Fatalf("%v", err)
		}
		m.Free()
	}
	if spliced < messages*3/10 {
		t.Errorf("%d of %d were spliced", spliced, messages)
	}
}

// A long field is not copied.
func TestSplicedFieldsAreNotCopied(t *testing.T) {
	pool := tarntest.NewPool(t)
	md := node(t)
	src := dynamicpb.NewMessage(md)
	long := fill(SpliceFrom)
	src.Set(md.Fields().ByName("data"), protoreflect.ValueOfBytes(long))
	src.Set(md.Fields().ByName("number"), protoreflect.ValueOfInt64(7))
	m, err := Spliced{}.Marshal(pool, src)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	views, err := m.Chain.Peek(m.Len(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range views {
		if len(v) == len(long) && &v[0] == &long[0] {
			return
		}
	}
	t.Errorf("no piece is the field itself: %d pieces", len(views))
}

// A spliced message holds the lent memory that its fields are views of until it is freed, unless they are a small part of it.
func TestSplicedHoldsLentMemory(t *testing.T) {
	pool := tarntest.NewPool(t)
	md := node(t)
	data := md.Fields().ByName("data")
	src := dynamicpb.NewMessage(md)
	src.Set(data, protoreflect.ValueOfBytes(fill(4*SpliceFrom)))
	encoded, err := proto.Marshal(src)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		n    int // bytes of the view
		held int64
	}{{4 * SpliceFrom, 1}, {2*SpliceFrom + 1024, 1}, {SpliceFrom, 0}} {
		var l Lease
		got := dynamicpb.NewMessage(md)
		if err := l.Unmarshal(pool, Message{Buf: pool.Copy(encoded)}, got); err != nil {
			t.Fatal(err)
		}
		before := pool.Stats().InUseBuffers
		reply := dynamicpb.NewMessage(md)
		reply.Set(data, protoreflect.ValueOfBytes(got.Get(data).Bytes()[:c.n]))
		m, err := Spliced{Lent: &l}.Marshal(pool, reply)
		if err != nil {
			t.Fatal(err)
		}
		l.Release()
		// The other one is the skeleton, or all of the message.
		if held := pool.Stats().InUseBuffers - before; held != c.held {
			t.Errorf("%d of %d bytes: %d more buffers than the request's in use after its release, not %d", c.n, 4*SpliceFrom, held, c.held)
		}
		parsed := dynamicpb.NewMessage(md)
		if err := proto.Unmarshal(m.Flatten(), parsed); err != nil || !bytes.Equal(parsed.Get(data).Bytes(), fill(4 * SpliceFrom)[:c.n]) {
			t.Errorf("%d of %d bytes: not what was marshalled: %v", c.n, 4*SpliceFrom, err)
		}
		m.Free()
		if n := pool.Stats().InUseBuffers; n != 0 {
			t.Errorf("%d of %d bytes: %d buffers in use", c.n, 4*SpliceFrom, n)
		}
	}
}
