package message

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// node is a message type with a bytes field in every possible place: singular, with presence, in a oneof,
// repeated, in a map, in messages that are singular and repeated, recursively.
func node(t testing.TB) protoreflect.MessageDescriptor {
	t.Helper()
	field := func(name string, n int32, typ descriptorpb.FieldDescriptorProto_Type, label descriptorpb.FieldDescriptorProto_Label) *descriptorpb.FieldDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{Name: &name, Number: &n, Type: &typ, Label: &label}
		if typ == descriptorpb.FieldDescriptorProto_TYPE_MESSAGE {
			f.TypeName = proto.String(".lend.Node")
		}
		return f
	}
	const (
		optional = descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL
		repeated = descriptorpb.FieldDescriptorProto_LABEL_REPEATED
		bytesT   = descriptorpb.FieldDescriptorProto_TYPE_BYTES
		stringT  = descriptorpb.FieldDescriptorProto_TYPE_STRING
		intT     = descriptorpb.FieldDescriptorProto_TYPE_INT64
		messageT = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
	)
	one := field("one", 6, bytesT, optional)
	two := field("two", 7, bytesT, optional)
	one.OneofIndex, two.OneofIndex = proto.Int32(0), proto.Int32(0)
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String("lend.proto"), Package: proto.String("lend"), Syntax: proto.String("proto2"),
		MessageType: []*descriptorpb.DescriptorProto{{
			Name: proto.String("Node"),
			Field: []*descriptorpb.FieldDescriptorProto{
				field("data", 1, bytesT, optional), field("list", 2, bytesT, repeated), field("text", 3, stringT, optional),
				field("number", 4, intT, optional), field("child", 5, messageT, optional), one, two, field("children", 8, messageT, repeated),
			},
			OneofDecl: []*descriptorpb.OneofDescriptorProto{{Name: proto.String("choice")}},
		}},
	}
	fd, err := protodesc.NewFile(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return fd.Messages().ByName("Node")
}

// grow fills a message at random.
func grow(rng *rand.Rand, md protoreflect.MessageDescriptor, depth int) protoreflect.Message {
	m := dynamicpb.NewMessage(md)
	blob := func() protoreflect.Value {
		n := []int{0, 1, LongField - 1, LongField, LongField + 1, 5000, 20000}[rng.IntN(7)]
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return protoreflect.ValueOfBytes(b)
	}
	fields := md.Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if rng.IntN(3) == 0 {
			continue
		}
		switch {
		case fd.Kind() == protoreflect.MessageKind && depth == 0:
		case fd.Kind() == protoreflect.MessageKind && fd.IsList():
			list := m.Mutable(fd).List()
			for range rng.IntN(4) {
				list.Append(protoreflect.ValueOfMessage(grow(rng, md, depth-1)))
			}
		case fd.Kind() == protoreflect.MessageKind:
			m.Set(fd, protoreflect.ValueOfMessage(grow(rng, md, depth-1)))
		case fd.IsList():
			list := m.Mutable(fd).List()
			for range rng.IntN(4) {
				list.Append(blob())
			}
		case fd.Kind() == protoreflect.BytesKind:
			m.Set(fd, blob())
		case fd.Kind() == protoreflect.StringKind:
			m.Set(fd, protoreflect.ValueOfString(fmt.Sprint(rng.Uint64())))
		default:
			m.Set(fd, protoreflect.ValueOfInt64(rng.Int64()))
		}
	}
	return m
}

// TestStringsAreNotLent: strings of any length, and bytes fields that are not long, are copied, also beside a lent one.
func TestStringsAreNotLent(t *testing.T) {
	md := node(t)
	m := dynamicpb.NewMessage(md)
	text, short := strings.Repeat("text ", 4000), bytes.Repeat([]byte("b"), LongField-1)
	m.Set(md.Fields().ByName("text"), protoreflect.ValueOfString(text))
	m.Set(md.Fields().ByName("one"), protoreflect.ValueOfBytes(short))
	m.Set(md.Fields().ByName("data"), protoreflect.ValueOfBytes(make([]byte, 5000)))
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	pool := tarntest.NewPool(t) // its memory is poisoned when it is freed
	got := dynamicpb.NewMessage(md)
	if err := lent(t, pool, data, got, func() {}); err != nil {
		t.Fatal(err)
	}
	if got.Get(md.Fields().ByName("text")).String() != text || !bytes.Equal(got.Get(md.Fields().ByName("one")).Bytes(), short) {
		t.Error("a string or a short bytes field has changed with the memory of the request")
	}
	if bytes.Equal(got.Get(md.Fields().ByName("data")).Bytes(), make([]byte, 5000)) {
		t.Error("the long bytes field is not a view: the test shows nothing")
	}
}

// lent decodes data as lent and calls use before the lease is released.
func lent(t *testing.T, pool *tarn.Pool, data []byte, v proto.Message, use func()) error {
	t.Helper()
	var l Lease
	err := l.Unmarshal(pool, Message{Buf: pool.Copy(data)}, v)
	use()
	l.Release()
	return err
}

// A message decoded as lent equals the parser's result for the same bytes, whatever they are.
func TestLentIsWhatTheParserMakes(t *testing.T) {
	pool := tarntest.NewPool(t)
	md := node(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range rounds(400) {
		data, err := proto.Marshal(grow(rng, md, 3).Interface())
		if err != nil {
			t.Fatal(err)
		}
		switch i % 4 {
		case 1: // two encodings one after the other are merged
			more, err := proto.Marshal(grow(rng, md, 2).Interface())
			if err != nil {
				t.Fatal(err)
			}
			data = append(data, more...)
		case 2: // truncated
			data = data[:rng.IntN(len(data)+1)]
		case 3: // a byte changed
			if len(data) > 0 {
				data[rng.IntN(len(data))] ^= 1 << rng.IntN(8)
			}
		}
		want, got := dynamicpb.NewMessage(md), dynamicpb.NewMessage(md)
		werr := proto.Unmarshal(data, want)
		var same bool
		gerr := lent(t, pool, data, got, func() { same = proto.Equal(want, got) })
		if (werr == nil) != (gerr == nil) || werr == nil && !same {
			t.Fatalf("message %d: %v and %v, equal %v", i, werr, gerr, same)
		}
	}
}

func FuzzLent(f *testing.F) {
	md := node(f)
	rng := rand.New(rand.NewPCG(3, 4))
	for range 10 {
		data, err := proto.Marshal(grow(rng, md, 2).Interface())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		pool := tarntest.NewPool(t)
		want, got := dynamicpb.NewMessage(md), dynamicpb.NewMessage(md)
		werr := proto.Unmarshal(data, want)
		var same bool
		gerr := lent(t, pool, data, got, func() { same = proto.Equal(want, got) })
		if (werr == nil) != (gerr == nil) || werr == nil && !same {
			t.Errorf("%v and %v, equal %v", werr, gerr, same)
		}
	})
}

// Long fields are views, and short ones are not.
func TestLentFieldsAreViews(t *testing.T) {
	pool := tarntest.NewPool(t)
	md := node(t)
	src := dynamicpb.NewMessage(md)
	data, list := md.Fields().ByName("data"), md.Fields().ByName("list")
	src.Set(data, protoreflect.ValueOfBytes(fill(LongField)))
	src.Mutable(list).List().Append(protoreflect.ValueOfBytes(fill(LongField - 1)))
	encoded, err := proto.Marshal(src)
	if err != nil {
		t.Fatal(err)
	}
	buf := pool.Copy(encoded)
	memory := buf.Bytes()
	var l Lease
	got := dynamicpb.NewMessage(md)
	if err := l.Unmarshal(pool, Message{Buf: buf}, got); err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(memory, fill(LongField))
	memory[at] ^= 0xff
	if got.Get(data).Bytes()[0] != memory[at] {
		t.Error("a long field is a copy")
	}
	memory[at] ^= 0xff
	at = bytes.LastIndex(memory, fill(LongField-1))
	memory[at] ^= 0xff
	if got.Get(list).List().Get(0).Bytes()[0] == memory[at] {
		t.Error("a short field is a view")
	}
	l.Release()
	l.Release() // a second call has no effect
}

// For a message without long fields, decoding as lent allocates no more than the parser does.
func TestLendingShortMessages(t *testing.T) {
	data, err := proto.Marshal(wrapperspb.Bytes(make([]byte, 100)))
	if err != nil {
		t.Fatal(err)
	}
	pool := tarntest.NewPool(t)
	buf := pool.Copy(data)
	defer buf.Free()
	v := new(wrapperspb.BytesValue)
	var lease Lease
	defer lease.Release()
	decoded := func(decode func(m Message) error) float64 {
		return testing.AllocsPerRun(100, func() {
			if err := decode(Message{Buf: buf.Ref()}); err != nil {
				t.Fatal(err)
			}
		})
	}
	parsed := decoded(func(m Message) error {
		defer m.Free()
		return Proto{}.Unmarshal(pool, &m, v)
	})
	if n := decoded(func(m Message) error { return lease.Decode(pool, Proto{}, m, v) }); n > parsed {
		t.Errorf("%v allocations, and %v without a lease", n, parsed)
	}
}

// TestLendAllocations: lending allocates no memory for parsing and none for the lease beyond the lease itself. One
// allocation is left for what package protobuf does.
func TestLendAllocations(t *testing.T) {
	pool, err := tarn.NewPool(tarn.PoolConfig{})
	if err != nil {
		t.Fatal(err)
	}
	data, err := proto.Marshal(wrapperspb.Bytes(make([]byte, 16<<10)))
	if err != nil {
		t.Fatal(err)
	}
	v := new(wrapperspb.BytesValue)
	lend := func() {
		l := new(Lease)
		if err := l.Unmarshal(pool, Message{Buf: pool.Copy(data)}, v); err != nil {
			t.Fatal(err)
		}
		l.Release()
	}
	for range 100 {
		lend()
	}
	if n := testing.AllocsPerRun(500, lend); n > 2+dropped {
		t.Errorf("%v allocations", n)
	}
}
