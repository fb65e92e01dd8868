package jsonpb

import (
	"testing"

	"github.com/tarn-go/tarn/rpc/internal/testpb"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// types are the message types of the tests, as protoc-gen-go makes them and as dynamicpb has them.
func types(t testing.TB) []protoreflect.MessageType {
	var all []protoreflect.MessageType
	for _, m := range []proto.Message{
		&testpb.Everything{}, &testpb.Scalars{}, &testpb.Optionals{}, &testpb.Lists{}, &testpb.Maps{}, &testpb.Choices{}, &testpb.Known{}, &testpb.Order{},
		&testpb.Legacy{}, &testpb.Required{}, &testpb.Opaque{}, &pb.SimpleRequest{}, &descriptorpb.FileDescriptorProto{},
		&timestamppb.Timestamp{}, &durationpb.Duration{}, &fieldmaskpb.FieldMask{}, &structpb.Struct{},
		&wrapperspb.Int64Value{}, &wrapperspb.BytesValue{},
	} {
		mt := m.ProtoReflect().Type()
		all = append(all, mt, dynamicpb.NewMessageType(mt.Descriptor()))
	}
	messages := editions(t).Messages()
	for i := range messages.Len() {
		all = append(all, dynamicpb.NewMessageType(messages.Get(i)))
	}
	return all
}

// editions is a file with the features that only editions have, and with names that need escapes.
func editions(t testing.TB) protoreflect.FileDescriptor {
	file := new(descriptorpb.FileDescriptorProto)
	err := prototext.Unmarshal([]byte(`
name: "editions.proto" package: "tarn.jsonpb.editions" syntax: "editions" edition: EDITION_2023
enum_type { name: "Closed" value { name: "MINUS" number: -1 } value { name: "ONE" number: 1 } options { features { enum_type: CLOSED } } }
message_type {
  name: "Edition"
  field { name: "explicit" number: 9 type: TYPE_INT32 label: LABEL_OPTIONAL json_name: "explicit" }
  field { name: "implicit" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL json_name: "implicit" options { features { field_presence: IMPLICIT } } }
  field { name: "expanded" number: 3 type: TYPE_SINT64 label: LABEL_REPEATED json_name: "expanded" options { features { repeated_field_encoding: EXPANDED } } }
  field { name: "closed" number: 4 type: TYPE_ENUM type_name: ".tarn.jsonpb.editions.Closed" label: LABEL_REPEATED json_name: "closed" }
  field { name: "delimited" number: 5 type: TYPE_MESSAGE type_name: ".tarn.jsonpb.editions.Edition" label: LABEL_OPTIONAL json_name: "delimited" options { features { message_encoding: DELIMITED } } }
  field { name: "delimiteds" number: 6 type: TYPE_MESSAGE type_name: ".tarn.jsonpb.editions.Edition" label: LABEL_REPEATED json_name: "delimiteds" options { features { message_encoding: DELIMITED } } }
  field { name: "unchecked" number: 7 type: TYPE_STRING label: LABEL_OPTIONAL json_name: "unchecked" options { features { utf8_validation: NONE } } }
  field { name: "zero" number: 8 type: TYPE_FLOAT label: LABEL_OPTIONAL json_name: "zero" options { features { field_presence: IMPLICIT } } }
}
message_type {
  name: "Odd"
  field { name: "quote" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL json_name: "\"quote\\" }
}
message_type {
  name: "Brackets"
  field { name: "a" number: 500 type: TYPE_BOOL label: LABEL_OPTIONAL json_name: "[a]" }
  field { name: "b" number: 17 type: TYPE_BOOL label: LABEL_OPTIONAL json_name: "c" }
  field { name: "c" number: 16 type: TYPE_BOOL label: LABEL_OPTIONAL json_name: "b" }
  field { name: "d" number: 15 type: TYPE_BOOL label: LABEL_OPTIONAL json_name: "D" }
}
`), file)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := protodesc.FileOptions{AllowUnresolvable: true}.New(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}
