package message

import (
	"testing"

	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/structpb"
)

// old is a message of the older interface, without methods of its own.
type old struct {
	Name   *string           `protobuf:"bytes,1,opt,name=name"`
	Inner  *old              `protobuf:"bytes,2,opt,name=inner"`
	Others []*older          `protobuf:"bytes,3,rep,name=others"`
	Map    map[string]*older `protobuf:"bytes,4,rep,name=map" protobuf_key:"bytes,1,opt,name=key" protobuf_val:"bytes,2,opt,name=value"`
}

func (m *old) Reset()         { *m = old{} }
func (m *old) String() string { return "" }
func (*old) ProtoMessage()    {}

type older struct {
	Name *string `protobuf:"bytes,1,opt,name=name"`
}

func (m *older) Reset()         { *m = older{} }
func (m *older) String() string { return "" }
func (*older) ProtoMessage()    {}

// keepers have messages that keep views, in a field, a list and a map.
type (
	keeperInField struct {
		Inner *keeper `protobuf:"bytes,2,opt,name=inner"`
	}
	keeperInList struct {
		Inner []*keeperInField `protobuf:"bytes,3,rep,name=inner"`
	}
	keeperInMap struct {
		Map map[string]*keeperInList `protobuf:"bytes,4,rep,name=map" protobuf_key:"bytes,1,opt,name=key" protobuf_val:"bytes,2,opt,name=value"`
	}
)

func (*keeperInField) Reset()         {}
func (*keeperInField) String() string { return "" }
func (*keeperInField) ProtoMessage()  {}
func (*keeperInList) Reset()          {}
func (*keeperInList) String() string  { return "" }
func (*keeperInList) ProtoMessage()   {}
func (*keeperInMap) Reset()           {}
func (*keeperInMap) String() string   { return "" }
func (*keeperInMap) ProtoMessage()    {}

// keeper keeps views.
type keeper struct{ b []byte }

func (m *keeper) Reset()                   { m.b = nil }
func (m *keeper) String() string           { return string(m.b) }
func (*keeper) ProtoMessage()              {}
func (m *keeper) Unmarshal(b []byte) error { m.b = b; return nil }
func (m *keeper) Marshal() ([]byte, error) { return m.b, nil }

// foreign is a message of a runtime other than protobuf-go.
type foreign struct{ *pb.SimpleRequest }

func (f foreign) ProtoReflect() protoreflect.Message {
	return foreignReflection{f.SimpleRequest.ProtoReflect()}
}

type foreignReflection struct{ protoreflect.Message }

func TestAllCopy(t *testing.T) {
	v2 := func(m protoadapt.MessageV1) proto.Message { return protoadapt.MessageV2Of(m) }
	for _, c := range []struct {
		name string
		m    proto.Message
		want bool
	}{
		{"generated", new(pb.SimpleRequest), true},
		{"with oneofs and a map of itself", new(structpb.Struct), true},
		{"with extensions", new(descriptorpb.FileOptions), true},
		{"dynamic", dynamicpb.NewMessage((*pb.SimpleRequest)(nil).ProtoReflect().Descriptor()), true},
		{"of another runtime", foreign{new(pb.SimpleRequest)}, false},
		{"old", v2(new(old)), true},
		{"with a method", v2(new(keeper)), false},
		{"with a method in a field", v2(new(keeperInField)), false},
		{"with a method in a list", v2(new(keeperInList)), false},
		{"with a method in a map", v2(new(keeperInMap)), false},
	} {
		if got := allCopy(c.m.ProtoReflect(), make(map[protoreflect.FullName]bool)); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
		for range 2 {
			if got := copies(c.m); got != (c.want && c.name != "old") {
				t.Errorf("%s: copies is %v", c.name, got)
			}
		}
	}
}
