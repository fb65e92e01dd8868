package rpc_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// http1Seen is what a handler and a statistics handler have seen of a call.
type http1Seen struct {
	mu    sync.Mutex
	lines []string
}

func (s *http1Seen) add(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

func (s *http1Seen) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := s.lines
	s.lines = nil
	return lines
}

func (s *http1Seen) TagRPC(ctx context.Context, i *stats.RPCTagInfo) context.Context {
	s.add("tag %s", i.FullMethodName)
	return ctx
}

func (s *http1Seen) HandleRPC(_ context.Context, e stats.RPCStats) {
	switch e := e.(type) {
	case *stats.InHeader:
		s.add("in header %s %s %d %v", e.FullMethod, e.Compression, e.WireLength, e.Header)
	case *stats.InPayload:
		s.add("in %d %d", e.Length, e.WireLength)
	case *stats.OutPayload:
		s.add("out %d %d", e.Length, e.WireLength)
	case *stats.End:
		s.add("end %v", e.Error)
	}
}

func (s *http1Seen) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (s *http1Seen) HandleConn(context.Context, stats.ConnStats)                       {}

// call is UnaryCall's handler: the request's user name says what it does.
func (s *http1Seen) call(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	p, _ := peer.FromContext(ctx)
	deadline, ok := ctx.Deadline()
	method, _ := grpc.Method(ctx)
	s.add("handler %s %v %v %v %s", method, md, p.Addr != nil && p.LocalAddr != nil && p.AuthInfo == nil, ok && time.Until(deadline) < time.Minute,
		ctx.Value(http.LocalAddrContextKey).(net.Addr).Network())
	switch string(in.GetPayload().GetBody()) {
	case "fails":
		grpc.SetTrailer(ctx, metadata.Pairs("x-trailer", "1", "x-bytes-bin", "\x00"))
		return nil, status.Error(codes.NotFound, "there is none")
	case "cancels":
		return nil, status.Error(codes.Canceled, "the handler's")
	case "panics":
		panic("the handler's")
	case "aborts":
		panic(http.ErrAbortHandler)
	case "waits":
		<-ctx.Done()
		return nil, ctx.Err()
	case "long":
		return &pb.SimpleResponse{Payload: payload(100000)}, nil
	}
	grpc.SetHeader(ctx, metadata.Pairs("x-header", "1", "x-header", "2"))
	grpc.SetTrailer(ctx, metadata.Pairs("x-trailer", "1"))
	return &pb.SimpleResponse{Payload: in.Payload}, nil
}

// TestHTTP1AsServeHTTP: a request of HTTP/1.1 gets the same response of Serve as of ServeHTTP under net/http, the handlers, interceptors and
// statistics handlers see the same, and the connection ends after the same requests.
func TestHTTP1AsServeHTTP(t *testing.T) {
	const path = "/grpc.testing.TestService/UnaryCall"
	saying := func(what string) string {
		return fmt.Sprintf(`{"payload":{"body":%q}}`, base64.StdEncoding.EncodeToString([]byte(what)))
	}
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	io.WriteString(zip, saying("packed"))
	zip.Close()
	requests := []struct {
		name, method, path, fields, body string
	}{
		{"JSON", "POST", path, "Content-Type: application/json\r\n", saying("x")},
		{"protobuf", "POST", path, "Content-Type: application/proto\r\n", "\x1a\x05\x12\x03abc"},
		{"empty protobuf", "POST", path, "Content-Type: application/proto\r\n", ""},
		{"empty JSON", "POST", path, "Content-Type: application/json\r\n", ""},
		{"bad JSON", "POST", path, "Content-Type: application/json\r\n", "{"},
		{"charset", "POST", path, "Content-Type: application/json; charset=utf-8\r\n", saying("x")},
		{"metadata", "POST", path, "Content-Type: application/json\r\nX-A: 1\r\nx-a: 2\r\nX-Bytes-Bin: AAE\r\nUser-Agent: curl/8\r\nAccept: */*\r\n", saying("x")},
		{"bad metadata", "POST", path, "Content-Type: application/json\r\nX-Bytes-Bin: ?\r\n", saying("x")},
		{"timeout", "POST", path, "Content-Type: application/json\r\nConnect-Protocol-Version: 1\r\nConnect-Timeout-Ms: 30000\r\n", saying("x")},
		{"bad timeout", "POST", path, "Content-Type: application/json\r\nConnect-Timeout-Ms: x\r\n", saying("x")},
		{"bad version", "POST", path, "Content-Type: application/json\r\nConnect-Protocol-Version: 2\r\n", saying("x")},
		{"gzip", "POST", path, "Content-Type: application/json\r\nContent-Encoding: gzip\r\nAccept-Encoding: gzip\r\n", packed.String()},
		{"unknown compression", "POST", path, "Content-Type: application/json\r\nContent-Encoding: xz\r\n", saying("x")},
		{"long response", "POST", path, "Content-Type: application/json\r\n", saying("long")},
		{"long request", "POST", path, "Content-Type: application/json\r\n", saying(strings.Repeat("x", 30000))},
		{"too long for the limit", "POST", path, "Content-Type: application/json\r\n", saying(strings.Repeat("x", 40000))},
		{"longer than what is ordinary", "POST", path, "Content-Type: application/json\r\n", saying(strings.Repeat("x", 70000))},
		{"error", "POST", path, "Content-Type: application/json\r\n", saying("fails")},
		{"cancelled by the handler", "POST", path, "Content-Type: application/json\r\n", saying("cancels")},
		{"panic", "POST", path, "Content-Type: application/json\r\n", saying("panics")},
		{"abort", "POST", path, "Content-Type: application/json\r\n", saying("aborts")},
		{"expires", "POST", path, "Content-Type: application/json\r\nConnect-Timeout-Ms: 20\r\n", saying("waits")},
		{"expired", "POST", path, "Content-Type: application/json\r\nConnect-Timeout-Ms: 0\r\n", saying("waits")},
		{"of a page", "POST", path, "Content-Type: application/json\r\nOrigin: https://app.example\r\n", saying("x")},
		{"of another page", "POST", path, "Content-Type: application/json\r\nOrigin: https://other.example\r\n", saying("x")},
		{"close", "POST", path, "Content-Type: application/json\r\nConnection: close\r\n", saying("x")},
		{"keep-alive", "POST", path, "Content-Type: application/json\r\nConnection: keep-alive\r\n", saying("x")},
		{"preflight", "OPTIONS", path, "Origin: https://app.example\r\nAccess-Control-Request-Method: POST\r\n", ""},
		{"GET", "GET", path, "", ""},
		{"HEAD", "HEAD", path, "", ""},
		{"unknown method", "POST", path + "s", "Content-Type: application/json\r\n", saying("x")},
		{"stream", "POST", "/grpc.testing.TestService/FullDuplexCall", "Content-Type: application/json\r\n", saying("x")},
		{"gRPC-Web", "POST", path, "Content-Type: application/grpc-web+proto\r\n", "\x00\x00\x00\x00\x07\x1a\x05\x12\x03abc"},
		{"gRPC", "POST", path, "Content-Type: application/grpc\r\n", "\x00\x00\x00\x00\x00"},
		{"text", "POST", path, "Content-Type: text/plain\r\n", saying("x")},
		{"no content type", "POST", path, "", saying("x")},
		{"expect", "POST", path, "Content-Type: application/json\r\nExpect: 100-continue\r\n", saying("x")},
		{"both lengths", "POST", path, "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"},
		{"folded", "POST", path, "Content-Type: application/json\r\nX-A: a\r\n b\r\n", saying("x")},
		{"no field", "POST", path, "Content-Type: application/json\r\nX-A\r\n", saying("x")},
	}
	seen := new(http1Seen)
	options := func() []rpc.ServerOption {
		return []rpc.ServerOption{rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true), rpc.StatsHandler(seen), rpc.MaxRecvMsgSize(50000),
			rpc.CORS(rpc.CORSConfig{Origins: []string{"https://app.example"}}), rpc.PanicHandler(func(string, any, []byte) {}),
			rpc.ChainUnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
				seen.add("interceptor %s", info.FullMethod)
				return handler(ctx, req)
			})}
	}
	svc := &testService{unary: seen.call}
	behind := rpc.NewServer(options()...)
	pb.RegisterTestServiceServer(behind, svc)
	stock := httptest.NewServer(behind)
	t.Cleanup(func() { stock.Close(); behind.Stop() })
	_, own := startTarn(t, svc, options()...)
	for _, r := range requests {
		t.Run(r.name, func(t *testing.T) {
			var got [2][]string
			for i, addr := range []string{stock.Listener.Addr().String(), own} {
				nc, err := net.Dial("tcp", addr)
				if err != nil {
					t.Fatal(err)
				}
				defer nc.Close()
				nc.SetDeadline(time.Now().Add(20 * time.Second))
				text := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n%s", r.method, r.path, r.fields, len(r.body), r.body)
				br := bufio.NewReader(nc)
				for range 2 { // the second shows whether the connection goes on
					if _, err := io.WriteString(nc, text); err != nil {
						got[i] = append(got[i], "closed")
						continue
					}
					res, err := http.ReadResponse(br, &http.Request{Method: r.method})
					if err == nil && res.StatusCode == http.StatusContinue {
						got[i] = append(got[i], res.Status)
						res, err = http.ReadResponse(br, &http.Request{Method: r.method})
					}
					if err != nil {
						got[i] = append(got[i], "closed")
						continue
					}
					body, err := io.ReadAll(res.Body)
					if _, perr := http.ParseTime(res.Header.Get("Date")); perr != nil && res.StatusCode != 400 {
						t.Error(perr)
					}
					res.Header.Del("Date")
					if res.Header.Get("Content-Encoding") == "gzip" { // the compressor's memory may change its output's length
						res.Header.Del("Content-Length")
						res.ContentLength = 0
					}
					text := string(body)
					if len(text) > 1000 {
						text = fmt.Sprint(len(text), " bytes")
					}
					got[i] = append(got[i], fmt.Sprint(res.Status, res.Proto, res.Header, res.TransferEncoding, res.ContentLength, res.Close, text, err))
				}
				nc.(*net.TCPConn).CloseWrite()
				io.Copy(io.Discard, br) // the calls have ended when the server closes the connection
				lines := seen.take()
				for j := range lines {
					lines[j] = strings.ReplaceAll(lines[j], addr, "address")
				}
				got[i] = append(got[i], lines...)
			}
			if !slices.Equal(got[0], got[1]) {
				t.Errorf("net/http: %q\nServe:    %q", got[0], got[1])
			}
		})
	}
}

// Stop ends a call of HTTP/1.1 that waits for its client, and closes its connection; GracefulStop waits for it, and the response says that
// the connection ends.
func TestStopOverHTTP1(t *testing.T) {
	for name, stop := range map[string]func(*rpc.Server){"Stop": (*rpc.Server).Stop, "GracefulStop": (*rpc.Server).GracefulStop} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, ended := make(chan struct{}), make(chan error, 1)
				s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true))
				pb.RegisterTestServiceServer(s, &testService{unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
					close(began)
					select {
					case <-ctx.Done():
					case <-time.After(time.Minute):
					}
					ended <- ctx.Err()
					return &pb.SimpleResponse{}, ctx.Err()
				}})
				lis := newPipes()
				served := make(chan error, 1)
				go func() { served <- s.Serve(lis) }()
				nc, err := lis.dial(t.Context(), "")
				if err != nil {
					t.Fatal(err)
				}
				defer nc.Close()
				go io.WriteString(nc, "POST /grpc.testing.TestService/UnaryCall HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
				<-began
				stopped := make(chan struct{})
				go func() {
					defer close(stopped)
					stop(s)
				}()
				res, err := http.ReadResponse(bufio.NewReader(nc), nil)
				graceful := name == "GracefulStop"
				if graceful != (err == nil && res.StatusCode == 200 && res.Close) {
					t.Errorf("%v, %v", res, err)
				}
				if err := <-ended; graceful != (err == nil) || err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("the handler ended with %v", err)
				}
				<-stopped
				if err := <-served; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
