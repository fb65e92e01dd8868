package rpc_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
)

// leavingClient is the response to a client that goes when it has the first bytes of the body.
type leavingClient struct {
	*httptest.ResponseRecorder
	leave func()
}

func (c leavingClient) Write(p []byte) (int, error) {
	n, err := c.ResponseRecorder.Write(p)
	c.leave()
	return n, err
}

// headerService answers with a header and no message, and calls then before its handlers return nil; without then it answers with a message.
type headerService struct {
	testService
	then func()
}

func (s *headerService) UnaryCall(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return &pb.SimpleResponse{Payload: payload(1)}, nil
}

func (s *headerService) StreamingInputCall(st pb.TestService_StreamingInputCallServer) error {
	if s.then == nil {
		return st.SendAndClose(&pb.StreamingInputCallResponse{AggregatedPayloadSize: 1})
	}
	defer s.then()
	return st.SendHeader(metadata.MD{})
}

func (s *headerService) StreamingOutputCall(_ *pb.StreamingOutputCallRequest, st pb.TestService_StreamingOutputCallServer) error {
	if s.then == nil {
		return st.Send(&pb.StreamingOutputCallResponse{Payload: payload(1)})
	}
	defer s.then()
	return st.SendHeader(metadata.MD{})
}

// TestWebClientLeaves: a call over ServeHTTP whose client goes while the response is sent, and whose handler returns nil, ends with OK for
// statistics handlers, as in grpc-go. What is still written has the status OK if it is a unary reply, and CANCELLED otherwise.
func TestWebClientLeaves(t *testing.T) {
	for _, p := range []struct {
		name, unary, stream string // with the content types
		ok, canceled        string // what a response that ends so contains
	}{
		{"gRPC", "application/grpc", "application/grpc", "Trailer:Grpc-Status:[0]", "Trailer:grpc-status:[1]"},
		{"gRPC-Web", "application/grpc-web", "application/grpc-web", "grpc-status: 0", "grpc-status: 1"},
		{"Connect", "application/proto", "application/connect+proto", "Content-Type:[application/proto]", `"code":"canceled"`},
	} {
		for _, c := range []struct {
			method   string
			atHeader bool // the client goes when it has the header
		}{
			{"UnaryCall", false}, {"StreamingInputCall", false}, {"StreamingInputCall", true}, {"StreamingOutputCall", false}, {"StreamingOutputCall", true},
		} {
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			svc := new(headerService)
			if c.atHeader {
				svc.then = leave
			}
			j := newJournal()
			s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.StatsHandler(j))
			pb.RegisterTestServiceServer(s, svc)
			contentType, request := p.stream, envelope("")
			if c.method == "UnaryCall" {
				if contentType = p.unary; p.name == "Connect" {
					request = ""
				}
			}
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, testServicePath+c.method, strings.NewReader(request))
			r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/2.0", 2, 0
			r.Header.Set("Content-Type", contentType)
			w := httptest.NewRecorder()
			s.ServeHTTP(leavingClient{w, leave}, r)
			told := p.canceled
			if c.method == "UnaryCall" {
				told = p.ok
			}
			if got, response := j.take(), fmt.Sprint(w.Header(), w.Body); !slices.Contains(got, "End OK") || !strings.Contains(response, told) {
				t.Errorf("%s, %s, at the header: %v: %q and %q, want End OK and %q", p.name, c.method, c.atHeader, got, response, told)
			}
		}
	}
}
