package web

import (
	"encoding/base64"
	"net/url"
	"strings"

	"github.com/tarn-go/tarn/rpc/internal/header"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Query is a unary call of Connect in the query of a GET.
type Query struct {
	Version     string // of the protocol; "": not given
	Codec       string
	Compression string
	message     string
	base64      bool
}

// ReadQuery returns the call in q; false: there is none.
func ReadQuery(q url.Values) (Query, bool) {
	version, _ := strings.CutPrefix(q.Get("connect"), "v")
	return Query{version, q.Get("encoding"), q.Get("compression"), q.Get("message"), q.Get("base64") == "1"}, q.Has("message") && q.Has("encoding")
}

// Message returns the encoded message. It fails if that is not base64 although the query says so.
func (q *Query) Message() (string, error) {
	if !q.base64 {
		return q.message, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(q.message, "="))
	return string(b), err
}

// SideEffectFree reports whether a method's descriptor, if it is linked in, declares it free of side effects.
func SideEffectFree(path string) bool {
	service, name, _ := header.SplitMethod(path)
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		return false
	}
	sd, ok := d.(protoreflect.ServiceDescriptor)
	if !ok {
		return false
	}
	m := sd.Methods().ByName(protoreflect.Name(name))
	if m == nil {
		return false
	}
	o, ok := m.Options().(*descriptorpb.MethodOptions)
	return ok && o.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
}
