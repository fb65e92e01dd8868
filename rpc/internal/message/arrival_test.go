package message

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/tarntest"
	"github.com/tarn-go/tarn/wire"
)

// arriveIn receives data as a message, to be freed, in pieces of lengths that cut chooses.
func arriveIn(pool *tarn.Pool, plan *Plan, data []byte, cut func() int) Message {
	a := newArrival(pool, plan, len(data), firstLook)
	for a.left() > 0 {
		if cut()%5 == 0 {
			a.shrink()
		}
		k := 1 + cut()
		if cut()%2 == 0 {
			data = data[a.put(data[:min(k, len(data))]):]
			continue
		}
		n := copy(a.space(), data[:min(k, len(data))])
		a.arrived(n)
		data = data[n:]
	}
	return a.take()
}

// mangled is a random message's encoding, in most cases changed.
func mangled(t *testing.T, rng *rand.Rand, md protoreflect.MessageDescriptor, i int) []byte {
	t.Helper()
	encode := func(depth int) []byte {
		b, err := proto.Marshal(grow(rng, md, depth).Interface())
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	data := encode(3)
	switch i % 5 {
	case 1: // two encodings one after the other are merged
		data = append(data, encode(2)...)
	case 2: // truncated
		data = data[:rng.IntN(len(data)+1)]
	case 3: // a byte changed
		if len(data) > 0 {
			data[rng.IntN(len(data))] ^= 1 << rng.IntN(8)
		}
	case 4: // in a group
		g := protowire.AppendTag(nil, 100, protowire.StartGroupType)
		g = append(g, data...)
		data = append(protowire.AppendTag(g, 100, protowire.EndGroupType), encode(1)...)
	}
	return data
}

// A message received by a plan equals the parser's result for the same bytes, however they are divided, and
// joined again it is the same bytes.
func TestArrivalIsWhatTheParserMakes(t *testing.T) {
	pool := tarntest.NewPool(t)
	md := node(t)
	rng := rand.New(rand.NewPCG(7, 8))
	parted := 0
	messages := rounds(300)
	for i := range messages {
		data := mangled(t, rng, md, i)
		if len(data) == 0 {
			continue
		}
		cut := func() int { return rng.IntN([]int{30, 100, 3000, 100000}[i%4]) }
		want, got := dynamicpb.NewMessage(md), dynamicpb.NewMessage(md)
		werr := proto.Unmarshal(data, want)
		m := arriveIn(pool, planOf(md), data, cut)
		if m.Len() != len(data) {
			t.Fatalf("message %d: %d bytes, not %d", i, m.Len(), len(data))
		}
		if m.parts != nil {
			parted++
		}
		gerr := (Proto{}).Unmarshal(pool, &m, got)
		m.Free() // no part of got may be in the pool's memory
		if (werr == nil) != (gerr == nil) || werr == nil && !proto.Equal(want, got) {
			t.Fatalf("message %d: %v and %v", i, werr, gerr)
		}
		m = arriveIn(pool, planOf(md), data, cut)
		if !bytes.Equal(m.Flatten(), data) {
			t.Fatalf("message %d is not the same when joined", i)
		}
		m.Free()
	}
	if parted < messages/6 {
		t.Errorf("%d messages came in parts", parted)
	}
}

func FuzzArrival(f *testing.F) {
	md := node(f)
	rng := rand.New(rand.NewPCG(3, 4))
	for range 10 {
		data, err := proto.Marshal(grow(rng, md, 2).Interface())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, uint16(rng.Uint32()))
	}
	f.Fuzz(func(t *testing.T, data []byte, cut uint16) {
		if len(data) == 0 {
			return
		}
		pool := tarntest.NewPool(t)
		want, got := dynamicpb.NewMessage(md), dynamicpb.NewMessage(md)
		werr := proto.Unmarshal(data, want)
		m := arriveIn(pool, planOf(md), data, func() int { return int(cut) })
		gerr := (Proto{}).Unmarshal(pool, &m, got)
		m.Free()
		if (werr == nil) != (gerr == nil) || werr == nil && !proto.Equal(want, got) {
			t.Errorf("%v and %v", werr, gerr)
		}
	})
}

// Each long field has separate memory of its length, and is not copied from where it was received.
func TestArrivalFieldsAreApart(t *testing.T) {
	pool := tarntest.NewPool(t)
	md := node(t)
	data, list, child := md.Fields().ByName("data"), md.Fields().ByName("list"), md.Fields().ByName("child")
	src, inner := dynamicpb.NewMessage(md), dynamicpb.NewMessage(md)
	inner.Set(data, protoreflect.ValueOfBytes(fill(50_000)))
	src.Set(data, protoreflect.ValueOfBytes(fill(100_000)))
	src.Mutable(list).List().Append(protoreflect.ValueOfBytes(fill(70_000)))
	src.Mutable(list).List().Append(protoreflect.ValueOfBytes(fill(10)))
	src.Set(child, protoreflect.ValueOfMessage(inner))
	encoded, err := proto.Marshal(src)
	if err != nil {
		t.Fatal(err)
	}
	// With an allowance for the length, a field stays in the memory that space returned.
	a := newArrival(pool, planOf(md), len(encoded), len(encoded))
	where := make(map[*byte]bool)
	for rest := encoded; len(rest) > 0; {
		space := a.space()
		where[&space[0]] = true
		n := copy(space, rest)
		a.arrived(n)
		rest = rest[n:]
	}
	taken := pool.Stats().InUse
	if taken > 8<<10 {
		t.Errorf("%d bytes of pooled memory are taken for short fields", taken)
	}
	m := a.take()
	got := dynamicpb.NewMessage(md)
	if err := (Proto{}).Unmarshal(pool, &m, got); err != nil || !proto.Equal(src, got) {
		t.Fatal(err)
	}
	m.Free()
	for _, field := range [][]byte{got.Get(data).Bytes(), got.Get(list).List().Get(0).Bytes(), got.Get(child).Message().Get(data).Bytes()} {
		if cap(field) != len(field) {
			t.Errorf("a field of %d bytes has %d", len(field), cap(field))
		}
		// The first bytes were read in search of the field, the others into it.
		in := false
		for i := range min(len(field), firstLook+16) {
			in = in || where[&field[i]]
		}
		if !in {
			t.Errorf("a field of %d bytes was copied", len(field))
		}
	}
}

// A peer that declares a long field and does not send it makes this side take little memory, and a message of
// another type than planned is parsed correctly.
func TestArrivalTakesWhatComes(t *testing.T) {
	pool := tarntest.NewPool(t)
	md := node(t)
	const declared = 1 << 30
	head := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.BytesType), declared)
	a := newArrival(pool, planOf(md), len(head)+declared, trusted(0))
	a.put(head)
	if n := a.memory() + len(a.space()); n > 4*trusted(0) {
		t.Errorf("%d bytes are taken for none that came", n)
	}
	a.free()

	data, err := proto.Marshal(wrapperspb.Bytes(fill(5000)))
	if err != nil {
		t.Fatal(err)
	}
	m := arriveIn(pool, planOf(md), data, func() int { return 700 })
	if m.parts == nil {
		t.Fatal("the field did not come apart")
	}
	var got wrapperspb.BytesValue
	if err := (Proto{}).Unmarshal(pool, &m, &got); err != nil || !bytes.Equal(got.Value, fill(5000)) {
		t.Error(err)
	}
	m.Free()
}

// Tests plans of types without bytes fields, and plans learned for methods.
func TestPlans(t *testing.T) {
	if planOf((&emptypb.Empty{}).ProtoReflect().Descriptor()) != nil {
		t.Error("a plan for nothing")
	}
	var l, none Learned
	none.From(&emptypb.Empty{})
	l.From(&wrapperspb.BytesValue{})
	l.From(&emptypb.Empty{}) // the first message decides
	if none.Plan() != nil || l.Plan() == nil || (*Learned)(nil).Plan() != nil {
		t.Error("not what was learned")
	}
	(*Learned)(nil).From(1)
	for i := range maxPlans + 10 { // a new descriptor each time
		if i%64 == 0 {
			planOf(node(t))
		}
		plans.n.Add(1)
	}
	if n := plans.n.Load(); n > 2*maxPlans+20 {
		t.Errorf("%d plans are kept", n)
	}
}

// TestArrivalCopies: growing copies less than a third of a message that is received into one buffer, however little of it
// is left at a step.
func TestArrivalCopies(t *testing.T) {
	pool := tarntest.NewPool(t)
	for _, n := range []int{wire.DefaultTrust + 1, 100_000, 1 << 20, 1<<20 + 8, 5 << 18, 1_300_000, 3_000_000} {
		data := fill(n)
		a := newArrival(pool, nil, n, trusted(0))
		copied := 0
		for put := 0; put < n; {
			before := a.memory()
			put += a.put(data[put:min(n, put+1000)])
			if a.memory() != before {
				copied += before
			}
		}
		m := a.take()
		if !bytes.Equal(m.Buf.Bytes(), data) {
			t.Error("another message arrived")
		}
		m.Free()
		if copied > n/3+3 { // each step is rounded up
			t.Errorf("%d bytes of a message of %d are copied", copied, n)
		}
	}
}
