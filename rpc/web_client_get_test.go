package rpc_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// lookupService is a service without generated code: Find has no side effects, Change may have some.
const lookupService = "tarn.testing.Lookup"

// registerLookup registers lookupService, whose methods are find, on s.
func registerLookup(t *testing.T, s *rpc.Server, find func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error)) {
	t.Helper()
	fd := &descriptorpb.FileDescriptorProto{
		Name: proto.String("tarn/testing/lookup.proto"), Package: proto.String("tarn.testing"), Syntax: proto.String("proto3"),
		Dependency: []string{pb.File_grpc_testing_messages_proto.Path()},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("Lookup"), Method: []*descriptorpb.MethodDescriptorProto{{
			Name: proto.String("Find"), InputType: proto.String(".grpc.testing.SimpleRequest"), OutputType: proto.String(".grpc.testing.SimpleResponse"),
			Options: &descriptorpb.MethodOptions{IdempotencyLevel: descriptorpb.MethodOptions_NO_SIDE_EFFECTS.Enum()},
		}, {
			Name: proto.String("Change"), InputType: proto.String(".grpc.testing.SimpleRequest"), OutputType: proto.String(".grpc.testing.SimpleResponse"),
		}}}},
	}
	if _, err := protoregistry.GlobalFiles.FindFileByPath(fd.GetName()); err != nil { // another test, or -count
		file, err := protodesc.NewFile(fd, protoregistry.GlobalFiles)
		if err != nil {
			t.Fatal(err)
		}
		if err := protoregistry.GlobalFiles.RegisterFile(file); err != nil {
			t.Fatal(err)
		}
	}
	handler := func(srv any, ctx context.Context, dec func(any) error, i grpc.UnaryServerInterceptor) (any, error) {
		in := new(pb.SimpleRequest)
		if err := dec(in); err != nil {
			return nil, err
		}
		return find(ctx, in)
	}
	s.RegisterService(&grpc.ServiceDesc{ServiceName: lookupService, HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Find", Handler: handler}, {MethodName: "Change", Handler: handler}}}, nil)
}

// A method without side effects is called with GET; one with a long request, and every other method, with
// POST.
func TestWebClientGet(t *testing.T) {
	s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)))
	registerLookup(t, s, asked)
	methods := make(chan string, 10)
	queries := make(chan string, 10)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		methods <- r.Method
		queries <- r.URL.RawQuery
		s.ServeHTTP(w, r)
	}))
	defer h.Close()
	cc := dialTarn(t, h.URL, rpc.WithProtocol(rpc.Connect), rpc.WithHTTPGet())
	for _, c := range []struct {
		method string
		size   int
		want   string
		opts   []grpc.CallOption
	}{
		{"Find", 0, "GET", nil}, {"Find", 100, "GET", nil}, {"Find", 100, "GET", []grpc.CallOption{grpc.CallContentSubtype("json")}},
		{"Find", 5000, "GET", []grpc.CallOption{grpc.UseCompressor(gzip.Name)}}, {"Find", 5950, "GET", nil}, {"Find", 6150, "POST", nil}, // 8,192 bytes of URL are 6,144 less some 100 for the rest
		{"Find", 7000, "POST", nil}, {"Find", 1 << 20, "POST", nil}, {"Change", 10, "POST", nil},
	} {
		out := new(pb.SimpleResponse)
		if err := cc.Invoke(ctxFor(t), "/"+lookupService+"/"+c.method, &pb.SimpleRequest{Payload: payload(c.size)}, out, c.opts...); err != nil {
			t.Fatal(err)
		}
		var names []string
		for part := range strings.SplitSeq(<-queries, "&") {
			name, _, _ := strings.Cut(part, "=")
			names = append(names, name)
		}
		// The order that the protocol recommends, so that caches have one entry for a request.
		order := []string{"connect", "base64", "compression", "encoding", "message"}
		if !slices.IsSortedFunc(names, func(a, b string) int { return slices.Index(order, a) - slices.Index(order, b) }) {
			t.Errorf("the query's parameters are %v", names)
		}
		if got := <-methods; got != c.want || !bytes.Equal(out.GetPayload().GetBody(), body(c.size)) {
			t.Errorf("%s with %d bytes was called with %s", c.method, c.size, got)
		}
	}
	err := cc.Invoke(ctxFor(t), "/"+lookupService+"/Find", &pb.SimpleRequest{ResponseStatus: &pb.EchoStatus{Code: 5}}, new(pb.SimpleResponse))
	wantCode(t, err, codes.NotFound)
}
