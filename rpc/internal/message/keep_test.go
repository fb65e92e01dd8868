package message

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/tarn-go/tarn/tarntest"
)

// parcel is the type of messages in these tests:
//
//	message Parcel {
//	  bytes data = 1;
//	  bytes sum = 2;
//	  string name = 3;
//	  Parcel inner = 4;
//	  repeated bytes parts = 5;
//	  oneof either { bytes left = 6; Parcel right = 7; int32 number = 8; }
//	}
func parcel(t testing.TB) protoreflect.MessageDescriptor {
	t.Helper()
	field := func(name string, num int32, typ descriptorpb.FieldDescriptorProto_Type) *descriptorpb.FieldDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{Name: &name, Number: &num, Type: &typ,
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
		if typ == descriptorpb.FieldDescriptorProto_TYPE_MESSAGE {
			f.TypeName = proto.String(".test.Parcel")
		}
		return f
	}
	const bytesType, message = descriptorpb.FieldDescriptorProto_TYPE_BYTES, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
	fields := []*descriptorpb.FieldDescriptorProto{
		field("data", 1, bytesType), field("sum", 2, bytesType),
		field("name", 3, descriptorpb.FieldDescriptorProto_TYPE_STRING), field("inner", 4, message),
		field("parts", 5, bytesType), field("left", 6, bytesType), field("right", 7, message),
		field("number", 8, descriptorpb.FieldDescriptorProto_TYPE_INT32),
	}
	fields[4].Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	for _, f := range fields[5:] {
		f.OneofIndex = proto.Int32(0)
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("parcel.proto"), Package: proto.String("test"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Parcel"), Field: fields,
			OneofDecl: []*descriptorpb.OneofDescriptorProto{{Name: proto.String("either")}}}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return file.Messages().Get(0)
}

func bytesField(num protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, num, protowire.BytesType), v)
}

// TestKeep: what keeps its part of the buffer does so, what cannot is copied, and
// all come out as proto.Unmarshal would have them.
func TestKeep(t *testing.T) {
	md := parcel(t)
	big, sum := fill(10_000), []byte("checksum")
	name := bytesField(3, []byte("a name"))
	for _, c := range []struct {
		name  string
		keep  outcome
		parts [][]byte
	}{
		{"alone", kept, [][]byte{bytesField(1, big)}},
		{"among others", kept, [][]byte{name, bytesField(1, big), bytesField(2, sum)}},
		{"in another", kept, [][]byte{name, bytesField(4, append(bytesField(1, big), name...)), bytesField(2, sum)}},
		{"in a oneof", kept, [][]byte{bytesField(6, big), name}},
		{"in one of a oneof", kept, [][]byte{bytesField(7, bytesField(6, big))}},
		{"twice", notKept, [][]byte{bytesField(1, big), bytesField(1, sum)}},
		{"in what is merged", notKept, [][]byte{bytesField(4, bytesField(1, big)), bytesField(4, bytesField(1, sum))}},
		{"replaced in its oneof", notKept, [][]byte{bytesField(6, big), {8 << 3, 1}}},
		{"replacing in its oneof", notKept, [][]byte{{8 << 3, 1}, bytesField(6, big)}},
		{"in a list", notKept, [][]byte{bytesField(5, big)}},
		{"a string", notKept, [][]byte{bytesField(3, bytes.Repeat([]byte("x"), 10_000))}},
		{"unknown", notKept, [][]byte{bytesField(99, big)}},
		{"two halves", notKept, [][]byte{bytesField(1, big), bytesField(2, big)}},
		{"many others", notKept, [][]byte{bytes.Repeat([]byte{8 << 3, 1}, maxFields+1), bytesField(1, big)}},
		{"deep", notKept, [][]byte{nest(maxDepth, bytesField(1, big))}},
		{"empty", notKept, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := bytes.Join(c.parts, nil)
			want := dynamicpb.NewMessage(md)
			if err := proto.Unmarshal(b, want); err != nil {
				t.Fatal(err)
			}
			want = proto.Clone(want).(*dynamicpb.Message)
			pool := tarntest.NewPool(t)
			var h Habit
			m := Message{Buf: collected{pool}.Get(len(b)), Habit: &h, Kept: true}
			mem := m.Buf.Bytes()
			copy(mem, b)
			got := dynamicpb.NewMessage(md)
			if err := (Proto{}).Unmarshal(&m, got); err != nil {
				t.Fatal(err)
			}
			m.Free()
			if !proto.Equal(got, want) {
				t.Fatalf("not the same:\n%v\n%v", got, want)
			}
			if h.keeps() != (c.keep == kept) {
				t.Fatalf("keeps: %t", h.keeps())
			}
			// Nothing else may hold on to the buffer.
			clear(mem)
			if !bytes.Equal(bytesOf(got, 2), bytesOf(want, 2)) {
				t.Error("a small field is part of the large buffer")
			}
			if c.keep == notKept && !proto.Equal(got, want) {
				t.Error("it was not copied")
			}
			if c.keep == kept && proto.Equal(got, want) {
				t.Error("it was copied")
			}
		})
	}
}

// outcome is what is expected of a message.
type outcome uint8

const (
	kept outcome = iota
	notKept
)

func bytesOf(m *dynamicpb.Message, num protowire.Number) []byte {
	return m.Get(m.Descriptor().Fields().ByNumber(num)).Bytes()
}

// nest puts b into n messages.
func nest(n int, b []byte) []byte {
	for range n {
		b = bytesField(4, b)
	}
	return b
}

// FuzzKeep compares with proto.Unmarshal.
func FuzzKeep(f *testing.F) {
	f.Add(bytesField(1, fill(100)))
	f.Add(bytesField(4, append(bytesField(1, fill(200)), bytesField(2, fill(9))...)))
	f.Add(append(bytesField(6, fill(100)), 8<<3, 1))
	f.Add(bytesField(7, bytesField(7, bytesField(6, fill(300)))))
	md := parcel(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		want, got := dynamicpb.NewMessage(md), dynamicpb.NewMessage(md)
		err := proto.Unmarshal(b, want)
		pool := tarntest.NewPool(t)
		var h Habit
		m := Message{Buf: pool.Wrap(bytes.Clone(b), nil), Habit: &h, Kept: true}
		if gerr := (Proto{}).Unmarshal(&m, got); (gerr == nil) != (err == nil) {
			t.Fatalf("%v, not %v", gerr, err)
		}
		m.Free()
		if err == nil && !proto.Equal(got, want) {
			t.Fatalf("not the same:\n%v\n%v", got, want)
		}
	})
}
