package rpc_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// fieldsOfHTTP are fields that belong to HTTP or to a protocol, each with a value that would spoil a message that had it.
var fieldsOfHTTP = [][2]string{
	{"accept-encoding", "br"}, {"connect-accept-encoding", "br"}, {"connect-content-encoding", "br"}, {"connect-protocol-version", "9"},
	{"connect-timeout-ms", "0"}, {"connection", "close"}, {"content-encoding", "br"}, {"content-length", "3"}, {"content-type", "text/html"},
	{"date", "never"}, {"expect", "200-ok"}, {"grpc-accept-encoding", "br"}, {"grpc-encoding", "br"}, {"grpc-message", "spoiled"},
	{"grpc-status", "5"}, {"grpc-timeout", "1n"}, {"host", "other.example"}, {"http2-settings", "AAE"}, {"keep-alive", "timeout=1"},
	{"proxy-connection", "close"}, {"te", "gzip"}, {"trailer", "x"}, {"transfer-encoding", "gzip"}, {"upgrade", "h2c"}, {"user-agent", "spoiled"},
}

// connectionFields are those with which RFC 9113 section 8.2.2 makes a message malformed. grpc-go's sides send all of them, and its server
// refuses the first only.
var connectionFields = []string{"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"}

// serversFields are those for which HTTP servers refuse a request that they contradict (RFC 9113 sections 8.1.1 and 8.3.1).
var serversFields = []string{"content-length", "host"}

// spoiling is a service that sets a field of a response's metadata and tells what it has received.
type spoiling struct {
	pb.UnimplementedTestServiceServer
	mu                sync.Mutex // of what follows, where handlers read or write it
	place, key, value string
	seen              []string // values of key in the request. The calls of a test follow one another
}

func (s *spoiling) spoil(ctx context.Context) {
	md, _ := metadata.FromIncomingContext(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = md[s.key]
	switch s.place {
	case "header":
		grpc.SetHeader(ctx, pairs(s.key, s.value))
	case "trailer":
		grpc.SetTrailer(ctx, pairs(s.key, s.value))
	}
}

func (s *spoiling) set(place, key, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.place, s.key, s.value = place, key, value
}

func (s *spoiling) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = nil
}

func (s *spoiling) UnaryCall(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	s.spoil(ctx)
	if in.FillUsername {
		return nil, status.Error(codes.NotFound, "nothing")
	}
	return &pb.SimpleResponse{Payload: in.Payload}, nil
}

func (s *spoiling) StreamingOutputCall(_ *pb.StreamingOutputCallRequest, out pb.TestService_StreamingOutputCallServer) error {
	s.spoil(out.Context())
	return out.Send(&pb.StreamingOutputCallResponse{Payload: payload(5)})
}

// spoiled is what a client and a handler have of a call with a spoiling field.
type spoiled struct {
	err  error
	seen []string // by whom the metadata was for
}

// makeSpoiled makes a unary call, one that fails, and a stream.
func (s *spoiling) makeSpoiled(t *testing.T, client grpc.ClientConnInterface) (out [3]spoiled) {
	c, ctx := pb.NewTestServiceClient(client), ctxFor(t)
	if s.place == "request" {
		ctx = metadata.AppendToOutgoingContext(ctx, s.key, s.value)
	}
	of := func(err error, header, trailer metadata.MD) spoiled {
		switch s.place {
		case "header":
			return spoiled{err, header[s.key]}
		case "trailer":
			return spoiled{err, trailer[s.key]}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return spoiled{err, s.seen}
	}
	for i := range 2 {
		s.forget()
		var header, trailer metadata.MD
		r, err := c.UnaryCall(ctx, &pb.SimpleRequest{Payload: payload(5), FillUsername: i == 1}, grpc.Header(&header), grpc.Trailer(&trailer))
		switch {
		case i == 1 && status.Code(err) == codes.NotFound && status.Convert(err).Message() == "nothing":
			err = nil
		case i == 1:
			err = errors.Join(errors.New("not the handler's error"), err)
		case err == nil && len(r.GetPayload().GetBody()) != 5:
			err = errors.New("another response")
		}
		if out[i] = of(err, header, trailer); i == 1 && s.place != "request" { // an error's metadata may be in the trailer
			out[i] = spoiled{err, slices.Concat(header[s.key], trailer[s.key])}
		}
	}
	s.forget()
	st, err := c.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{})
	if err != nil {
		out[2].err = err
		return out
	}
	_, err = st.Recv()
	if err == nil {
		if _, err = st.Recv(); err == io.EOF {
			err = nil
		}
	}
	header, _ := st.Header()
	out[2] = of(err, header, st.Trailer())
	return out
}

// TestFieldsOfHTTPInMetadata: metadata with the names of HTTP's own fields spoils no call. Tarn's sides send none of it; what grpc-go's
// send is passed on as by grpc-go.
func TestFieldsOfHTTPInMetadata(t *testing.T) {
	t.Parallel()
	const serve, onNetHTTP, onH2HTTP = "Serve", "ServeHTTP on net/http", "ServeHTTP on h2http"
	s := &spoiling{}
	start := map[string]string{}
	_, start[serve] = startTarn(t, s)
	start["grpc-go"] = grpcServer(t, s)
	h := rpc.NewServer()
	pb.RegisterTestServiceServer(h, s)
	start[onNetHTTP], start[onH2HTTP] = serveHTTP2(t, h), serveH2HTTP(t, h)
	const grpcGo, connect, web = "grpc-go", "Connect", "gRPC-Web"
	clients := func(t *testing.T, name, addr string) grpc.ClientConnInterface {
		switch name {
		case grpcGo:
			return dialGRPC(t, addr)
		case connect:
			return dialTarn(t, "http://"+addr, rpc.WithProtocol(rpc.Connect))
		case web:
			return dialTarn(t, "http://"+addr, rpc.WithProtocol(rpc.GRPCWeb))
		}
		return dialTarn(t, addr)
	}
	t.Cleanup(h.Stop)
	for _, field := range fieldsOfHTTP {
		for _, place := range []string{"request", "header", "trailer"} {
			s.set(place, field[0], field[1])
			stock := s.makeSpoiled(t, dialGRPC(t, start["grpc-go"]))
			for _, server := range []string{"grpc-go", serve, onNetHTTP, onH2HTTP} {
				for _, client := range []string{grpcGo, "gRPC", connect, web} {
					if server == "grpc-go" && client != "gRPC" {
						continue
					}
					from := client // whose metadata it is
					if place != "request" {
						from = server
					}
					if from == "grpc-go" && (slices.Contains(connectionFields, field[0]) || server != serve && server != from && slices.Contains(serversFields, field[0])) {
						continue
					}
					conn := clients(t, client, start[server])
					for i, got := range s.makeSpoiled(t, conn) {
						name := place + " " + field[0] + ", " + client + " to " + server
						switch {
						case from == "grpc-go" && stock[i].err != nil: // nor do they understand each other
						case got.err != nil:
							t.Errorf("%s, call %d: %v", name, i, got.err)
						case from != "grpc-go" && slices.Contains(got.seen, field[1]):
							t.Errorf("%s, call %d: %q was sent", name, i, got.seen)
						case from == "grpc-go" && server == serve && stock[i].err == nil && !slices.Equal(got.seen, stock[i].seen):
							t.Errorf("%s, call %d: %q was received, by grpc-go %q", name, i, got.seen, stock[i].seen)
						}
					}
				}
			}
		}
	}
}
