package rpc_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// TestPathsAreVerbatim: a method is called by its own path alone, in each protocol, on Serve and through ServeHTTP.
func TestPathsAreVerbatim(t *testing.T) {
	ran := make(chan string, 1)
	svc := &testService{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		m, _ := grpc.Method(ctx)
		ran <- m
		return &pb.SimpleResponse{}, nil
	}}
	_, serve := startTarn(t, svc)
	h := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)))
	pb.RegisterTestServiceServer(h, svc)
	addrs := map[string]string{"Serve": serve, "ServeHTTP on net/http": serveHTTP2(t, h), "ServeHTTP on h2http": serveH2HTTP(t, h)}
	t.Cleanup(h.Stop)
	const path = "/grpc.testing.TestService/UnaryCall"
	for _, p := range []string{path, "/grpc.testing.TestService%2FUnaryCall", "/grpc%2Etesting.TestService/UnaryCall", "/grpc.testing.TestService/Unary%43all",
		"//grpc.testing.TestService/UnaryCall", "/grpc.testing.TestService//UnaryCall", path + "/", "/a/.." + path, "/a/%2e%2e" + path} {
		for where, addr := range addrs {
			for _, contentType := range []string{"application/grpc", "application/grpc-web", "application/proto"} {
				for major, client := range clients(t) {
					if major == 1 && contentType == "application/grpc" {
						continue
					}
					body := "\x00\x00\x00\x00\x00"
					if contentType == "application/proto" {
						body = ""
					}
					r, err := http.NewRequestWithContext(ctxFor(t), "POST", "http://"+addr, strings.NewReader(body))
					if err != nil {
						t.Fatal(err)
					}
					r.URL.Opaque = "//" + addr + p // as it is
					r.Header.Set("Content-Type", contentType)
					res, err := client.Do(r)
					if err == nil {
						io.Copy(io.Discard, res.Body)
						res.Body.Close()
					}
					got := ""
					select {
					case got = <-ran:
					default:
					}
					if want := p == path; want != (got == path) || !want && got != "" {
						t.Errorf("%s, %s, HTTP/%d, %q: the handler was called for %q, %v", where, contentType, major, p, got, err)
					}
				}
			}
		}
	}
}

// TestSpellingsOfEncodings: a weight of 0 in any spelling forbids a compression, and names ignore case (RFC 9110 sections 8.4.1, 12.4.2
// and 12.5.3).
func TestSpellingsOfEncodings(t *testing.T) {
	_, addr := startTarn(t, &testService{})
	in, err := proto.Marshal(&pb.SimpleRequest{Payload: payload(5000)})
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write(in)
	z.Close()
	ask := func(contentType, body string, header ...string) *http.Response {
		r, err := http.NewRequestWithContext(ctxFor(t), "POST", "http://"+addr+"/grpc.testing.TestService/UnaryCall", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", contentType)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		res, err := clients(t)[1].Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res
	}
	for accept, want := range map[string]string{"gzip": "gzip", "GZIP": "gzip", "gzip;q=0.5": "gzip", "br, gzip": "gzip", "gzip;q=0.001": "gzip",
		"gzip;q=0": "", "gzip; q=0": "", "gzip;q=0.0": "", "gzip;q=0.000": "", "gzip; Q=0": "", "gzip ; q=0": "", "*;q=0": "", "GZIP;Q=0.": "", "identity": ""} {
		if got := ask("application/proto", string(in), "Accept-Encoding", accept).Header.Get("Content-Encoding"); got != want {
			t.Errorf("Connect, %q: %q, want %q", accept, got, want)
		}
		frame := append([]byte{1, 0, 0, byte(packed.Len() >> 8), byte(packed.Len())}, packed.Bytes()...)
		got := ask("application/grpc-web", string(frame), "Grpc-Encoding", "gzip", "Grpc-Accept-Encoding", accept).Header.Get("Grpc-Encoding")
		if got != want {
			t.Errorf("gRPC-Web, %q: %q, want %q", accept, got, want)
		}
	}
	if res := ask("application/proto", packed.String(), "Content-Encoding", "GZIP"); res.StatusCode != 200 {
		t.Errorf("Content-Encoding GZIP: %s", res.Status)
	}
}

// TestErrorsWithOK: a handler's error whose status is OK has the same outcome in each protocol as with grpc-go.
func TestErrorsWithOK(t *testing.T) {
	svc := &testService{unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) { return nil, okError{} },
		output: func(_ *pb.StreamingOutputCallRequest, s pb.TestService_StreamingOutputCallServer) error {
			return okError{}
		}}
	_, addr := startTarn(t, svc)
	for name, cc := range map[string]grpc.ClientConnInterface{
		"grpc-go": dialGRPC(t, grpcServer(t, svc)), "gRPC": dialTarn(t, addr), "grpc-go to Serve": dialGRPC(t, addr),
		"gRPC-Web": dialTarn(t, "http://"+addr, rpc.WithProtocol(rpc.GRPCWeb)), "Connect": dialTarn(t, "http://"+addr, rpc.WithProtocol(rpc.Connect)),
	} {
		c := pb.NewTestServiceClient(cc)
		if r, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}); status.Code(err) != codes.Internal {
			t.Errorf("%s: %v, %v", name, r, err)
		}
		st, err := c.StreamingOutputCall(ctxFor(t), &pb.StreamingOutputCallRequest{})
		if err == nil {
			_, err = st.Recv()
		}
		if err != io.EOF {
			t.Errorf("%s, a stream: %v", name, err)
		}
	}
}

// okError is an error whose status is OK.
type okError struct{}

func (okError) Error() string              { return "not an error" }
func (okError) GRPCStatus() *status.Status { return status.New(codes.OK, "") }

// TestSecondSendHeader: SendHeader, and SetHeader after it, fail when SendHeader has been called, in each protocol.
func TestSecondSendHeader(t *testing.T) {
	errs := make(chan error, 3)
	svc := &testService{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		errs <- grpc.SendHeader(ctx, pairs("a", "1"))
		errs <- grpc.SendHeader(ctx, pairs("a", "2"))
		errs <- grpc.SetHeader(ctx, pairs("a", "3"))
		return &pb.SimpleResponse{}, nil
	}}
	_, addr := startTarn(t, svc)
	for name, cc := range map[string]grpc.ClientConnInterface{
		"grpc-go": dialGRPC(t, grpcServer(t, svc)), "gRPC": dialTarn(t, addr),
		"gRPC-Web": dialTarn(t, "http://"+addr, rpc.WithProtocol(rpc.GRPCWeb)), "Connect": dialTarn(t, "http://"+addr, rpc.WithProtocol(rpc.Connect)),
	} {
		md := pairs()
		if _, err := pb.NewTestServiceClient(cc).UnaryCall(ctxFor(t), &pb.SimpleRequest{}, grpc.Header(&md)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		first, second, third := <-errs, <-errs, <-errs
		if first != nil || second == nil || third == nil || !slices.Equal(md["a"], []string{"1"}) {
			t.Errorf("%s: %v, %v, %v; the header is %v", name, first, second, third, md)
		}
	}
}

// TestRequestsCutOff: no handler gets a part of a request of HTTP/1.1 that was cut off anywhere.
func TestRequestsCutOff(t *testing.T) {
	type seen struct {
		n   int
		err error
	}
	got := make(chan seen, 1)
	svc := &inputService{handler: func(in pb.TestService_StreamingInputCallServer) error {
		r, err := in.Recv()
		for err == nil {
			r, err = in.Recv()
		}
		if err == io.EOF {
			err = nil
		}
		got <- seen{len(r.GetPayload().GetBody()), err}
		return err
	}}
	svc.unary = func(_ context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		got <- seen{len(in.GetPayload().GetBody()), nil}
		return &pb.SimpleResponse{}, nil
	}
	plain := "\x1a\x03\x12\x01a\x12\x00" // two fields: a part of it is a message, too
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	io.WriteString(z, plain)
	z.Close()
	frame := func(flag byte, s string) string { return string([]byte{flag, 0, 0, 0, byte(len(s))}) + s }
	for _, r := range []struct{ name, method, fields, body string }{
		{"protobuf", "UnaryCall", "Content-Type: application/proto\r\n", plain},
		{"gzip", "UnaryCall", "Content-Type: application/proto\r\nContent-Encoding: gzip\r\n", packed.String()},
		{"JSON", "UnaryCall", "Content-Type: application/json\r\n", "{}  "},
		{"gRPC-Web", "UnaryCall", "Content-Type: application/grpc-web\r\n", frame(0, plain)},
		{"gRPC-Web text", "UnaryCall", "Content-Type: application/grpc-web-text\r\n", "AAAAAAA=AAAAAAA="},
		{"Connect stream", "StreamingInputCall", "Content-Type: application/connect+proto\r\n", frame(0, plain) + frame(0, plain)},
		{"gRPC-Web stream", "StreamingInputCall", "Content-Type: application/grpc-web\r\n", frame(0, plain) + frame(0, plain)},
	} {
		for _, carrier := range []string{"length", "chunks"} {
			t.Run(r.name+"/"+carrier, func(t *testing.T) {
				_, addr := startTarn(t, svc)
				for n := range len(r.body) {
					nc, err := net.Dial("tcp", addr)
					if err != nil {
						t.Fatal(err)
					}
					fmt.Fprintf(nc, "POST /grpc.testing.TestService/%s HTTP/1.1\r\nHost: x\r\n%s", r.method, r.fields)
					if carrier == "length" {
						fmt.Fprintf(nc, "Content-Length: %d\r\n\r\n%s", len(r.body), r.body[:n])
					} else {
						fmt.Fprint(nc, "Transfer-Encoding: chunked\r\n\r\n")
						if n > 0 {
							fmt.Fprintf(nc, "%x\r\n%s\r\n", n, r.body[:n])
						}
					}
					nc.(*net.TCPConn).CloseWrite()
					res, err := http.ReadResponse(bufio.NewReader(nc), nil)
					if err == nil {
						io.Copy(io.Discard, res.Body)
						if res.StatusCode == 200 && r.fields == "Content-Type: application/proto\r\n" {
							t.Errorf("%d of %d bytes: %s", n, len(r.body), res.Status)
						}
					}
					nc.Close()
					select {
					case s := <-got:
						if s.err == nil || status.Code(s.err) != codes.Canceled {
							t.Errorf("%d of %d bytes: the handler has got %d bytes, %v", n, len(r.body), s.n, s.err)
						}
					default:
					}
				}
			})
		}
	}
}

// connStats records the events of connections, and which of them calls have.
type connStats struct{ http1Seen }

func (s *connStats) TagConn(ctx context.Context, i *stats.ConnTagInfo) context.Context {
	if i.RemoteAddr == nil || i.LocalAddr == nil {
		s.add("no address")
	}
	return context.WithValue(ctx, connStatsKey{}, "tagged")
}

type connStatsKey struct{}

func (s *connStats) HandleConn(ctx context.Context, e stats.ConnStats) {
	s.add("%T %v", e, ctx.Value(connStatsKey{}))
}

func (s *connStats) HandleRPC(ctx context.Context, e stats.RPCStats) {
	s.add("%T %v", e, ctx.Value(connStatsKey{}))
}

// TestConnStatsInEachProtocol: statistics handlers tag connections of HTTP/1.1, too, and see them begin and end.
func TestConnStatsInEachProtocol(t *testing.T) {
	for _, c := range []struct {
		name, target string
		p            rpc.Protocol
	}{{"gRPC", "", rpc.GRPC}, {"gRPC-Web", "http://", rpc.GRPCWeb}, {"Connect", "http://", rpc.Connect}} {
		t.Run(c.name, func(t *testing.T) {
			log := new(connStats)
			s, addr := startTarn(t, &testService{}, rpc.StatsHandler(log), rpc.WaitForHandlers(true))
			cc := dialTarn(t, c.target+addr, rpc.WithProtocol(c.p))
			if err := cc.Invoke(ctxFor(t), "/grpc.testing.TestService/UnaryCall", &pb.SimpleRequest{}, &pb.SimpleResponse{}); err != nil {
				t.Fatal(err)
			}
			if err := cc.Invoke(ctxFor(t), "/grpc.testing.TestService/Nothing", &pb.SimpleRequest{}, &pb.SimpleResponse{}); status.Code(err) != codes.Unimplemented {
				t.Fatal(err)
			}
			cc.Close()
			s.Stop()
			got := log.take()
			for i := range got {
				got[i] = strings.ReplaceAll(got[i], "*stats.", "")
			}
			want := []string{"ConnBegin tagged", "tag /grpc.testing.TestService/UnaryCall", "InHeader tagged", "Begin tagged", "InPayload tagged",
				"OutHeader tagged", "OutPayload tagged", "OutTrailer tagged", "End tagged",
				"tag /grpc.testing.TestService/Nothing", "InHeader tagged", "OutTrailer tagged", "ConnEnd tagged"}
			// Calls report on goroutines of their own, after the response and perhaps after the connection.
			if len(got) == 0 || got[0] != want[0] {
				t.Errorf("the connection does not come first: %q", got)
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// TestNoStatsOfWhatWasNotSent: a call whose client has gone has neither an OutPayload nor an OutTrailer.
func TestNoStatsOfWhatWasNotSent(t *testing.T) {
	for _, c := range []struct {
		name, target string
		p            rpc.Protocol
	}{{"gRPC", "", rpc.GRPC}, {"gRPC-Web", "http://", rpc.GRPCWeb}, {"Connect", "http://", rpc.Connect}} {
		t.Run(c.name, func(t *testing.T) {
			log := newEventLog()
			began := make(chan struct{})
			var once sync.Once
			svc := &testService{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
				once.Do(func() { close(began) })
				<-ctx.Done()
				return &pb.SimpleResponse{Payload: payload(100000)}, nil
			}}
			_, addr := startTarn(t, svc, rpc.StatsHandler(log))
			cc := dialTarn(t, c.target+addr, rpc.WithProtocol(c.p))
			ctx, cancel := context.WithCancel(ctxFor(t))
			go func() {
				<-began
				cancel()
			}()
			if err := cc.Invoke(ctx, "/grpc.testing.TestService/UnaryCall", &pb.SimpleRequest{}, &pb.SimpleResponse{}); !errors.Is(ctx.Err(), context.Canceled) {
				t.Fatal(err)
			}
			for _, e := range log.take() {
				if strings.HasPrefix(e, "OutTrailer") || strings.HasPrefix(e, "OutPayload") {
					t.Error(e)
				}
			}
		})
	}
}
