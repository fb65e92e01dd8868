package rpc_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

// respond sends a header and pieces of a body, the last of which ends the stream.
func (p *rawPeer) respond(id uint32, header []string, body ...string) {
	p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.block(header...), EndHeaders: true})
	for i, b := range body {
		p.fr.WriteData(id, i == len(body)-1, []byte(b))
	}
}

// TestForeignAnswer: the status of a call that is answered with what is not gRPC's, such as a proxy's page of an error, has the beginning of that
// answer in its message, as in grpc-go.
func TestForeignAnswer(t *testing.T) {
	const (
		text = "unexpected HTTP status code received from server: 404 (Not Found); transport: received unexpected content-type \"text/plain\"\ndata: "
		many = 1 << 10
	)
	header := []string{":status", "404", "content-type", "text/plain"}
	end := func(p *rawPeer, id uint32) {
		p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.block("grpc-status", "9", "x-bin", "???"), EndHeaders: true, EndStream: true})
	}
	for _, c := range []struct {
		name   string
		answer func(p *rawPeer, id uint32)
		want   string
		ours   bool // grpc-go has another status
	}{
		{"one piece", func(p *rawPeer, id uint32) { p.respond(id, header, "404 page not found\n") }, `"404 page not found\n"`, false},
		{"pieces", func(p *rawPeer, id uint32) { p.respond(id, header, "404", "", " page", "") }, `"404 page"`, false},
		{"empty", func(p *rawPeer, id uint32) { p.respond(id, header, "") }, `""`, false},
		{"not text", func(p *rawPeer, id uint32) { p.respond(id, header, "\x00\xff\"") }, `"\x00\xff\""`, false},
		{"long", func(p *rawPeer, id uint32) {
			p.respond(id, header, strings.Repeat("a", many-1), strings.Repeat("b", 9000))
		}, `"` + strings.Repeat("a", many-1) + `b"`, false},
		{"without an end", func(p *rawPeer, id uint32) {
			p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.block(header...), EndHeaders: true})
			p.fr.WriteData(id, false, []byte(strings.Repeat("a", many)))
		}, `"` + strings.Repeat("a", many) + `"`, false},
		{"trailers", func(p *rawPeer, id uint32) {
			p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.block(header...), EndHeaders: true})
			p.fr.WriteData(id, false, []byte("page"))
			end(p, id)
		}, `"page"`, false},
		{"a reset", func(p *rawPeer, id uint32) {
			p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.block(header...), EndHeaders: true})
			p.fr.WriteData(id, false, []byte("page"))
			p.fr.WriteRSTStream(id, http2.ErrCodeCancel)
		}, `"page"`, true},
		{"the end of the connection", func(p *rawPeer, id uint32) {
			p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.block(header...), EndHeaders: true})
			p.fr.WriteData(id, false, []byte("page"))
			p.nc.Close()
		}, `"page"`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			addr := rawServer(t, c.answer)
			clients := map[string]grpc.ClientConnInterface{"tarn": dialTarn(t, addr)}
			if newestGRPC() && !c.ours {
				clients["grpc-go"] = dialGRPC(t, addr)
			}
			for name, cc := range clients {
				stub := pb.NewTestServiceClient(cc)
				_, unary := stub.EmptyCall(ctxFor(t), &pb.Empty{})
				s, err := stub.FullDuplexCall(ctxFor(t))
				if err != nil {
					t.Fatal(err)
				}
				if md, err := s.Header(); md != nil {
					t.Errorf("%s: the header is %v, %v", name, md, err)
				}
				_, stream := s.Recv()
				for _, err := range []error{unary, stream} {
					if st := status.Convert(err); st.Code() != codes.Unimplemented || st.Message() != text+c.want {
						t.Errorf("%s: %v", name, err)
					}
				}
			}
		})
	}
}

// TestForeignAnswerIsRetried: a retry policy holds for statuses of HTTP whose answer has a body, as in grpc-go.
func TestForeignAnswerIsRetried(t *testing.T) {
	const policy = `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 3, "initialBackoff": "0.001s", "maxBackoff": "0.001s",
		"backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`
	var asked atomic.Int32
	answer := func(p *rawPeer, id uint32) {
		asked.Add(1)
		p.respond(id, []string{":status", "503", "content-type", "text/html"}, "<html>", "</html>")
	}
	for name, cc := range map[string]grpc.ClientConnInterface{
		"tarn": dialTarn(t, rawServer(t, answer), rpc.WithDefaultServiceConfig(policy)),
		// An answer while grpc-go still sends the message may end its stream with EOF.
		"grpc-go": dialGRPC(t, rawServer(t, func(p *rawPeer, id uint32) { p.readRequest(id); answer(p, id) }), grpc.WithDefaultServiceConfig(policy)),
	} {
		stub := pb.NewTestServiceClient(cc)
		for kind, call := range map[string]func(context.Context) error{
			"unary": func(ctx context.Context) error {
				_, err := stub.UnaryCall(ctx, &pb.SimpleRequest{})
				return err
			},
			"stream": func(ctx context.Context) error {
				s, err := stub.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{})
				if err == nil {
					_, err = s.Recv()
				}
				return err
			},
		} {
			asked.Store(0)
			if err := call(ctxFor(t)); status.Code(err) != codes.Unavailable || asked.Load() != 3 {
				t.Errorf("%s, %s: %d attempts, %v", name, kind, asked.Load(), err)
			}
		}
	}
}

// TestAnswerToAnUnreadRequest: an answer that ends with DATA ends a call whose request is still being sent, although the server does not read it.
func TestAnswerToAnUnreadRequest(t *testing.T) {
	for name, x := range map[string]struct {
		status, contentType string
		want                codes.Code
	}{"text": {"503", "text/plain", codes.Unavailable}, "gRPC": {"200", "application/grpc", codes.Internal}} {
		addr := rawServer(t, func(p *rawPeer, id uint32) {
			p.respond(id, []string{":status", x.status, "content-type", x.contentType}, "")
		})
		clients := map[string]grpc.ClientConnInterface{"tarn": dialTarn(t, addr)}
		if newestGRPC() || name == "gRPC" {
			clients["grpc-go"] = dialGRPC(t, addr)
		}
		for client, cc := range clients {
			stub := pb.NewTestServiceClient(cc)
			_, err := stub.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(1 << 20)})
			wantAnswer := func(err error) {
				if status.Code(err) != x.want {
					t.Errorf("%s, %s: %v", name, client, err)
				}
			}
			wantAnswer(err)
			s, err := stub.FullDuplexCall(ctxFor(t))
			for err == nil {
				err = s.Send(&pb.StreamingOutputCallRequest{Payload: payload(1 << 20)})
			}
			_, err = s.Recv()
			wantAnswer(err)
		}
	}
}

// TestTooMuchForAnUnreadRequest: a reply that is too long, or not the only one, ends a unary call whose request is still being sent,
// although the server does not read it.
func TestTooMuchForAnUnreadRequest(t *testing.T) {
	for name, x := range map[string]struct {
		data string
		want codes.Code
	}{"too long": {"\x00\x7f\x00\x00\x00abc", codes.ResourceExhausted}, "two": {"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", codes.Internal}} {
		addr := rawServer(t, func(p *rawPeer, id uint32) {
			p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.block(":status", "200", "content-type", "application/grpc"), EndHeaders: true})
			p.fr.WriteData(id, false, []byte(x.data))
		})
		for client, cc := range map[string]grpc.ClientConnInterface{"tarn": dialTarn(t, addr), "grpc-go": dialGRPC(t, addr)} {
			if client == "grpc-go" && name == "two" {
				continue // it waits for the call's end
			}
			ctx := ctxFor(t)
			_, err := pb.NewTestServiceClient(cc).UnaryCall(ctx, &pb.SimpleRequest{Payload: payload(1 << 20)})
			if status.Code(err) != x.want || ctx.Err() != nil {
				t.Errorf("%s, %s: %v; %v", name, client, err, ctx.Err())
			}
		}
	}
}

// TestForeignAnswerThatDoesNotEnd: a call without a deadline is not held by an answer whose body stops.
func TestForeignAnswerThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lis := newPipes()
		srv := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			io.WriteString(w, "page")
			http.NewResponseController(w).Flush()
			<-r.Context().Done() // by the client's reset
		})}
		srv.Protocols.SetUnencryptedHTTP2(true)
		go srv.Serve(lis)
		defer srv.Close()
		cc, err := rpc.NewClient("passthrough:///svc", rpc.WithPool(tarntest.NewPool(t)),
			rpc.WithTransportCredentials(insecure.NewCredentials()), rpc.WithContextDialer(lis.dial))
		if err != nil {
			t.Fatal(err)
		}
		defer cc.Close()
		began := time.Now()
		_, err = pb.NewTestServiceClient(cc).EmptyCall(t.Context(), &pb.Empty{})
		if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), `502 (Bad Gateway); transport: received unexpected content-type "text/plain; charset=utf-8"`+"\ndata: \"page\"") {
			t.Error(err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("the call took %v", took)
		}
	})
}
