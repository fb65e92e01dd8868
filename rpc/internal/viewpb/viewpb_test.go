package viewpb_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/rpc/internal/testpb"
	"github.com/tarn-go/tarn/rpc/internal/viewpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/structpb"
)

// messages are of the types that the tests decode: all of testpb's, and some of protobuf's own.
func messages() []protoreflect.MessageType {
	var all []protoreflect.MessageType
	for _, file := range []protoreflect.FileDescriptor{testpb.File_everything_proto, testpb.File_legacy_proto, testpb.File_opaque_proto} {
		for i := range file.Messages().Len() {
			all = append(all, registered(file.Messages().Get(i)))
		}
	}
	return append(all, (*structpb.Struct)(nil).ProtoReflect().Type(), (*descriptorpb.FileDescriptorProto)(nil).ProtoReflect().Type())
}

// registered is the Go type of a message that is linked into the test.
func registered(md protoreflect.MessageDescriptor) protoreflect.MessageType {
	mt, err := protoregistry.GlobalTypes.FindMessageByName(md.FullName())
	if err != nil {
		panic(err)
	}
	return mt
}

// both decodes b by proto.Unmarshal and by Unmarshal, and compares the results. It reports whether Unmarshal decoded it.
func both(t *testing.T, mt protoreflect.MessageType, b []byte) bool {
	t.Helper()
	want, got := mt.New().Interface(), mt.New().Interface()
	err := proto.Unmarshal(b, want)
	mine := bytes.Clone(b)
	if !viewpb.Unmarshal(mine, got, nil) {
		if proto.Size(got) > 0 {
			t.Fatalf("%s: what was not decoded is not empty", mt.Descriptor().FullName())
		}
		return false
	}
	if err != nil {
		t.Fatalf("%s: %x is decoded, but not by protobuf-go: %v", mt.Descriptor().FullName(), b, err)
	}
	if !proto.Equal(got, want) {
		t.Fatalf("%s: %x is decoded as\n%v, by protobuf-go as\n%v", mt.Descriptor().FullName(), b, got, want)
	}
	one, err1 := proto.MarshalOptions{Deterministic: true}.Marshal(got)
	other, err2 := proto.MarshalOptions{Deterministic: true}.Marshal(want)
	if err1 != nil || err2 != nil || !bytes.Equal(one, other) {
		t.Fatalf("%s: %x is encoded as %x, %v, after protobuf-go as %x, %v", mt.Descriptor().FullName(), b, one, err1, other, err2)
	}
	return true
}

// TestEqual decodes random messages, what random edits have made of them, and two after each other, as one.
func TestEqual(t *testing.T) {
	supported := 0
	for _, mt := range messages() {
		r := rand.New(rand.NewPCG(1, 2))
		decoded := 0
		for range 100 {
			b := random(t, mt, r)
			if both(t, mt, b) {
				decoded++
			}
			both(t, mt, slices.Concat(b, random(t, mt, r)))
			for range 10 {
				both(t, mt, edit(b, r))
			}
		}
		if decoded > 0 {
			supported++
		}
		if name := mt.Descriptor().Name(); decoded < 90 && slices.Contains([]protoreflect.Name{"Scalars", "Optionals", "Lists", "Maps", "Choices", "Known", "Everything", "Order", "Struct"}, name) {
			t.Errorf("%d of 100 messages of %s were decoded", decoded, name)
		}
	}
	if supported < 9 {
		t.Errorf("messages of %d types were decoded", supported)
	}
}

func FuzzEqual(f *testing.F) {
	all := messages()
	r := rand.New(rand.NewPCG(1, 2))
	for i, mt := range all {
		f.Add(uint8(i), random(f, mt, r))
	}
	f.Fuzz(func(t *testing.T, n uint8, b []byte) { both(t, all[int(n)%len(all)], b) })
}

// TestViews: strings and bytes are views of the input, or what the caller lends.
func TestViews(t *testing.T) {
	in := &testpb.Order{Id: "identity", Tags: []string{"first", "second"}, Labels: map[string]string{"key": "value"},
		Items: []*testpb.Order_Item{{Sku: "sku"}}, Payment: &testpb.Order_CardToken{CardToken: "token"}, Note: proto.String("note")}
	b, err := proto.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	lent := new(testpb.Order)
	ok := viewpb.Unmarshal(b, lent, func(fd protoreflect.FieldDescriptor, content []byte) []byte {
		names = append(names, string(fd.Name())+"="+string(content))
		return bytes.ToUpper(content)
	})
	slices.Sort(names)
	if want := []string{"card_token=token", "id=identity", "labels=key", "labels=value", "note=note", "sku=sku", "tags=first", "tags=second"}; !ok || !slices.Equal(names, want) {
		t.Errorf("%v: lent %q", ok, names)
	}
	if lent.Id != "IDENTITY" || lent.Labels["KEY"] != "VALUE" || lent.Items[0].Sku != "SKU" || lent.GetCardToken() != "TOKEN" || lent.GetNote() != "NOTE" || lent.Tags[1] != "SECOND" {
		t.Errorf("got %v", lent)
	}
	viewed := new(testpb.Order)
	if !viewpb.Unmarshal(b, viewed, nil) || !proto.Equal(viewed, in) {
		t.Fatalf("got %v", viewed)
	}
	copy(b, bytes.Repeat([]byte("x"), len(b)))
	if viewpb.IsView && (viewed.Id != "xxxxxxxx" || viewed.Items[0].Sku != "xxx" || viewed.Tags[0] != "xxxxx") {
		t.Errorf("after the memory was written to: %v", viewed)
	}
}

// TestLeft: what is left to protobuf-go.
func TestLeft(t *testing.T) {
	order := (*testpb.Order)(nil).ProtoReflect().Type()
	deep := []byte{}
	for range 200 {
		deep = protowire.AppendBytes(protowire.AppendTag(nil, 7, protowire.BytesType), deep)
	}
	for what, c := range map[string]struct {
		mt protoreflect.MessageType
		b  []byte
	}{
		"a string that is not UTF-8":   {order, []byte{0x0a, 1, 0xff}},
		"a key that is not UTF-8":      {order, []byte{0x3a, 3, 0x0a, 1, 0xff}},
		"a length beyond the end":      {order, []byte{0x0a, 0xff, 0xff, 0xff, 0x7f}},
		"a field without its value":    {order, []byte{0x0a}},
		"another wire type":            {order, []byte{0x08, 1}},
		"a group":                      {order, []byte{0x0b, 0x0c}},
		"a field number of 0":          {order, []byte{0x02, 0}},
		"messages within each other":   {(*testpb.Everything)(nil).ProtoReflect().Type(), deep},
		"a message without descriptor": {dynamicpb.NewMessageType(order.Descriptor()), []byte{0x0a, 1, 'a'}},
	} {
		if both(t, c.mt, c.b) {
			t.Errorf("%s is decoded", what)
		}
	}
}

// TestDeclaredLengths: memory is taken for what has come, and not for what it declares.
func TestDeclaredLengths(t *testing.T) {
	m := new(testpb.Everything)
	for _, b := range [][]byte{
		{0x42, 0xff, 0xff, 0xff, 0x7f},             // a list of messages
		{0x1a, 7, 0x0a, 0xff, 0xff, 0xff, 0x7f},    // packed numbers
		{0x22, 6, 0x0a, 0xff, 0xff, 0xff, 0xff, 7}, // an entry
	} {
		var before, after = testing.AllocsPerRun(10, func() { viewpb.Unmarshal(b[:1], m, nil) }), testing.AllocsPerRun(10, func() { viewpb.Unmarshal(b, m, nil) })
		if after > before+8 {
			t.Errorf("%x: %v allocations", b, after)
		}
	}
}

// TestAllocations: a message of many strings takes an allocation for each map and a few for each list.
func TestAllocations(t *testing.T) {
	if !viewpb.IsView {
		t.SkipNow()
	}
	in := &testpb.Order{}
	for range 100 {
		in.Items = append(in.Items, &testpb.Order_Item{Sku: strings.Repeat("s", 30), Title: strings.Repeat("t", 30), Quantity: 3})
	}
	b, err := proto.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	m := new(testpb.Order)
	if n := testing.AllocsPerRun(100, func() { viewpb.Unmarshal(b, m, nil) }); n > 5 {
		t.Errorf("%v allocations", n)
	}
}

// random is a random message of a type, encoded.
func random(t testing.TB, mt protoreflect.MessageType, r *rand.Rand) []byte {
	m := mt.New()
	fill(m, r, 3)
	b, err := proto.MarshalOptions{AllowPartial: true}.Marshal(m.Interface())
	if err != nil {
		t.Fatal(err)
	}
	if r.IntN(4) == 0 { // an unknown field
		b = protowire.AppendBytes(protowire.AppendTag(b, 15000, protowire.BytesType), []byte("unknown"))
	}
	return b
}

// edit changes some bytes of b, or leaves some out.
func edit(b []byte, r *rand.Rand) []byte {
	b = bytes.Clone(b)
	for n := 1 + r.IntN(3); n > 0 && len(b) > 0; n-- {
		switch i := r.IntN(len(b)); r.IntN(4) {
		case 0:
			b[i] = byte(r.Uint32())
		case 1:
			b[i] ^= 1 << r.IntN(8)
		case 2:
			b = b[:i]
		case 3:
			b = slices.Delete(b, i, min(i+1+r.IntN(4), len(b)))
		}
	}
	return b
}

// fill sets random fields of m, to depth levels.
func fill(m protoreflect.Message, r *rand.Rand, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if r.IntN(2) == 0 || fd.Message() != nil && depth == 0 {
			continue
		}
		switch {
		case fd.IsList():
			for l := m.Mutable(fd).List(); r.IntN(3) > 0; {
				if fd.Message() != nil {
					fill(l.AppendMutable().Message(), r, depth-1)
				} else {
					l.Append(scalar(fd, r))
				}
			}
		case fd.IsMap():
			for entries := m.Mutable(fd).Map(); r.IntN(3) > 0; {
				k := scalar(fd.MapKey(), r).MapKey()
				if fd.MapValue().Message() != nil {
					fill(entries.Mutable(k).Message(), r, depth-1)
				} else {
					entries.Set(k, scalar(fd.MapValue(), r))
				}
			}
		case fd.Message() != nil:
			fill(m.Mutable(fd).Message(), r, depth-1)
		default:
			m.Set(fd, scalar(fd, r))
		}
	}
}

// scalar is a random value of a field.
func scalar(fd protoreflect.FieldDescriptor, r *rand.Rand) protoreflect.Value {
	n := int64(r.Uint64()) >> r.IntN(64)
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(n&1 == 0)
	case protoreflect.EnumKind:
		values := fd.Enum().Values()
		return protoreflect.ValueOfEnum(values.Get(r.IntN(values.Len())).Number())
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(n)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(uint64(n))
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(n) / 3)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(math.Float64frombits(uint64(n) &^ (1 << 62)))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(strings.Repeat("ä", r.IntN(20)))
	}
	return protoreflect.ValueOfBytes(bytes.Repeat([]byte{byte(n)}, r.IntN(40)))
}
