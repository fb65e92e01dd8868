package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/proto"
)

// script is the input of a peer, as bytes: operations and their arguments. It continues with zeros after its
// end.
type script struct{ b []byte }

func (s *script) next() byte {
	if len(s.b) == 0 {
		return 0
	}
	c := s.b[0]
	s.b = s.b[1:]
	return c
}

// below returns a number below n.
func (s *script) below(n int) int { return int(s.next()) % n }

// take returns the next n bytes, or as many as remain.
func (s *script) take(n int) []byte {
	n = min(n, len(s.b))
	p := s.b[:n]
	s.b = s.b[n:]
	return p
}

// speaker is a peer that follows a script. Most of its HTTP/2 and gRPC is valid, so that it reaches the layer
// under test, and invalid where the script says so.
type speaker struct {
	script
	link   *faultnet.Link
	nc     net.Conn
	to     *faultnet.Flow // what it sends
	from   *faultnet.Flow // what it is sent
	fr     *http2.Framer
	enc    *hpack.Encoder
	buf    bytes.Buffer
	next   uint32      // the stream that a request opens
	fields [][2]string // the fields from which header lists are made
	usual  [][2]string // what they begin with
}

// The fields from which the script chooses, in requests and in responses.
var (
	usualRequest = [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", "/grpc.testing.TestService/UnaryCall"},
		{":authority", "x"}, {"content-type", "application/grpc"}, {"te", "trailers"}}
	requestFields = [][2]string{
		{":path", "/grpc.testing.TestService/FullDuplexCall"}, {":path", "/grpc.testing.TestService/StreamingOutputCall"},
		{":path", "/grpc.testing.TestService/StreamingInputCall"}, {":path", "/grpc.testing.TestService/EmptyCall"},
		{":path", "/a/b"}, {":path", "a"}, {":method", "GET"}, {":method", "OPTIONS"}, {"content-type", "application/grpc-web+proto"},
		{"content-type", "application/grpc+json"}, {"content-type", "application/json"}, {"content-type", "application/connect+proto"},
		{"content-type", "text/html"}, {"grpc-timeout", "1S"}, {"grpc-timeout", "10m"}, {"grpc-timeout", "0n"}, {"grpc-timeout", "x"},
		{"grpc-encoding", "gzip"}, {"grpc-encoding", "identity"}, {"grpc-encoding", "lost"}, {"grpc-accept-encoding", "gzip,lost"},
		{"x-bin", "AAEC"}, {"x-bin", "*"}, {"x", "y"}, {"content-length", "5"}, {"content-length", "-"}, {"connect-protocol-version", "1"},
		{"origin", "http://x"}, {"X", "upper"}, {"connection", "close"}, {"host", "y"}, {"expect", "100-continue"},
	}
	usualResponse  = [][2]string{{":status", "200"}, {"content-type", "application/grpc"}}
	responseFields = [][2]string{
		{"grpc-status", "0"}, {"grpc-status", "1"}, {"grpc-status", "14"}, {"grpc-status", "x"}, {"grpc-status", "99"}, {"grpc-message", "%F0%9F"},
		{"grpc-message", "%zz"}, {"grpc-status-details-bin", "CAUSAXg"}, {"grpc-status-details-bin", "*"}, {":status", "404"}, {":status", "100"},
		{":status", "999"}, {"content-type", "text/html"}, {"grpc-encoding", "gzip"}, {"grpc-encoding", "lost"}, {"x-bin", "AAEC"}, {"x-bin", "*"},
		{"grpc-retry-pushback-ms", "1"}, {"grpc-retry-pushback-ms", "-1"}, {"x", "y"}, {"content-length", "5"}, {"", ""},
	}
)

func newSpeaker(data []byte, l *faultnet.Link, nc net.Conn, to, from *faultnet.Flow) *speaker {
	s := &speaker{script: script{data}, link: l, nc: nc, to: to, from: from, next: 1}
	s.fr = http2.NewFramer(nc, nc)
	s.fr.AllowIllegalWrites = true
	s.enc = hpack.NewEncoder(&s.buf)
	return s
}

// block encodes up to three fields chosen by the script after, or in place of, the usual ones.
func (s *speaker) block(usual [][2]string) []byte {
	s.buf.Reset()
	list := append([][2]string(nil), usual...)
	for range s.below(4) {
		f := s.fields[s.below(len(s.fields))]
		at := -1
		for i := range list {
			if list[i][0] == f[0] {
				at = i
			}
		}
		if at >= 0 {
			list[at] = f
		} else {
			list = append(list, f)
		}
	}
	for _, f := range list {
		s.enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	return s.buf.Bytes()
}

// stream chooses one of the streams that may exist.
func (s *speaker) stream() uint32 { return uint32(1 + 2*s.below(8)) }

// request encodes a request that the service accepts.
var request = sync.OnceValue(func() []byte {
	b, err := proto.Marshal(&pb.SimpleRequest{Payload: payload(50)})
	if err != nil {
		panic(err)
	}
	return b
})

// message is a message, valid or not.
func (s *speaker) message() []byte {
	switch s.below(8) {
	case 0:
		return prefixed(0, nil)
	case 1:
		return prefixed(0, request())[:s.below(40)]
	case 2:
		return prefixed(1, []byte("no gzip"))
	case 3:
		return prefixed(byte(s.below(256)), nil)
	case 4:
		return append(prefixed(0, request()), prefixed(0, request())...)
	case 5:
		return prefixed(0, make([]byte, 2<<20))[:s.below(256)*64]
	case 6:
		return s.take(s.below(64))
	default:
		return prefixed(0, request())
	}
}

// play runs the script until its end or the connection's.
func (s *speaker) play() {
	for len(s.b) > 0 && s.step() == nil {
	}
}

func (s *speaker) step() error {
	switch op := s.below(20); op {
	case 0, 1, 2:
		id := s.stream()
		if op > 0 {
			id, s.next = s.next, s.next+2
		}
		return s.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndHeaders: true, EndStream: s.below(4) == 0, BlockFragment: s.block(s.usual)})
	case 3, 4, 5, 6:
		return s.fr.WriteData(s.stream(), s.below(2) == 0, s.message())
	case 7: // trailers
		return s.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: s.stream(), EndHeaders: true, EndStream: true, BlockFragment: s.block(nil)})
	case 8:
		return s.fr.WriteRSTStream(s.stream(), http2.ErrCode(s.below(16)))
	case 9:
		return s.fr.WriteWindowUpdate(uint32(s.below(8)), uint32(s.below(256))<<s.below(24))
	case 10:
		return s.fr.WriteSettings(http2.Setting{ID: http2.SettingID(s.below(10)), Val: uint32(s.below(256)) << s.below(24)})
	case 11:
		return s.fr.WritePing(s.below(2) == 0, [8]byte{s.script.next()})
	case 12:
		return s.fr.WriteGoAway(s.stream(), http2.ErrCode(s.below(16)), []byte("why"))
	case 13: // possibly a header list in two frames, with another frame between
		b := s.block(s.usual)
		n := s.below(len(b) + 1)
		if err := s.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: s.next, BlockFragment: b[:n]}); err != nil {
			return err
		}
		s.next += 2
		if s.below(4) == 0 {
			return s.fr.WritePing(false, [8]byte{})
		}
		return s.fr.WriteContinuation(s.next-2, true, b[n:])
	case 14:
		typ, flags := s.script.next(), s.script.next()
		return s.fr.WriteRawFrame(http2.FrameType(typ), http2.Flags(flags), uint32(s.below(8)), s.take(s.below(32)))
	case 15:
		_, err := s.nc.Write(s.take(s.below(32)))
		return err
	case 16:
		synctest.Wait() // until the other side can do no more
	case 17:
		<-time.After(time.Duration(s.below(256)) * time.Millisecond)
	case 18:
		s.from.Stall()
	case 19:
		s.from.Resume()
	}
	return nil
}

// hangUp ends the conversation as the script says.
func (s *speaker) hangUp() {
	s.from.Resume()
	switch s.below(3) {
	case 0:
		s.link.Break(faultnet.FIN)
	case 1:
		s.link.Break(faultnet.RST)
	}
	s.nc.Close()
}

// oneConn is a listener of a single connection.
type oneConn struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *oneConn) Accept() (net.Conn, error) {
	select {
	case nc := <-l.conns:
		return nc, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l *oneConn) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// talkToServer runs a script against a server. In the bubble a wait without end is a deadlock, which fails
// the test, as do a panic of a handler and a leaked buffer.
func talkToServer(t *testing.T, data []byte) {
	l := faultnet.New(t, faultnet.Memory)
	s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true), rpc.MaxRecvMsgSize(1<<20), rpc.RequestMemory(1<<20),
		rpc.PanicHandler(func(method string, v any, stack []byte) { t.Errorf("%s panicked: %v\n%s", method, v, stack) }))
	pb.RegisterTestServiceServer(s, &testService{})
	lis := &oneConn{conns: make(chan net.Conn, 1), done: make(chan struct{})}
	lis.conns <- l.Server
	served := make(chan error, 1)
	go func() { served <- s.Serve(lis) }()
	p := newSpeaker(data, l, l.Client, l.ToServer, l.ToClient)
	p.fields, p.usual = requestFields, usualRequest
	heard := make(chan struct{})
	go func() {
		io.Copy(io.Discard, l.Client)
		close(heard)
	}()
	if p.below(16) > 0 {
		io.WriteString(p.nc, http2.ClientPreface)
		p.fr.WriteSettings()
	}
	p.play()
	synctest.Wait()
	p.hangUp()
	<-heard
	s.Stop()
	<-served
	<-time.After(time.Minute) // goroutines kept for web requests end after their idle time
}

// talkToClient runs a script against a client that makes calls of every kind. All of them end. A stream's
// methods are called by one goroutine, and only unary calls are retried with a delay: a goroutine that waits
// for a mutex stops the bubble's clock.
func talkToClient(t *testing.T, data []byte) {
	l := faultnet.New(t, faultnet.Memory)
	dialled := false
	cc, err := rpc.NewClient("passthrough:///x", rpc.WithPool(tarntest.NewPool(t)), rpc.WithTransportCredentials(insecure.NewCredentials()),
		rpc.WithDefaultServiceConfig(`{"methodConfig":[{"name":[{"service":"grpc.testing.TestService","method":"UnaryCall"}],"retryPolicy":{"maxAttempts":3,"initialBackoff":"0.01s","maxBackoff":"1s","backoffMultiplier":2,"retryableStatusCodes":["UNAVAILABLE","ABORTED"]}}]}`),
		rpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			if dialled {
				return nil, errors.New("there is one connection only")
			}
			dialled = true
			return l.Client, nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	p := newSpeaker(data, l, l.Server, l.ToClient, l.ToServer)
	p.fields, p.usual = responseFields, usualResponse
	heard := make(chan struct{})
	go func() {
		io.Copy(io.Discard, l.Server)
		close(heard)
	}()
	c := pb.NewTestServiceClient(cc)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { c.UnaryCall(ctx, &pb.SimpleRequest{Payload: payload(10)}) })
		wg.Go(func() { c.UnaryCall(ctx, &pb.SimpleRequest{Payload: payload(100_000)}) })
		wg.Go(func() {
			st, err := c.FullDuplexCall(ctx)
			if err != nil {
				return
			}
			for range 2 {
				if st.Send(&pb.StreamingOutputCallRequest{Payload: payload(40_000)}) != nil {
					break
				}
			}
			st.CloseSend()
			st.Header()
			for err == nil {
				_, err = st.Recv()
			}
			st.Trailer()
		})
		wg.Go(func() {
			st, err := c.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{})
			for err == nil {
				_, err = st.Recv()
			}
		})
	}
	if p.below(16) > 0 {
		p.fr.WriteSettings()
	}
	synctest.Wait() // the calls have begun
	p.play()
	synctest.Wait()
	if p.below(2) == 0 {
		p.hangUp()
	}
	wg.Wait()
	cc.Close()
	p.from.Resume()
	l.Break(faultnet.FIN)
	p.nc.Close()
	<-heard
}

// maxScript bounds the fuzzer's input: longer scripts find nothing that several short ones do not.
const maxScript = 2048

// conversations are the seeds. testdata has the inputs that found a defect.
func conversations(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1, 1, 0, 1, 3, 0, 0, 7, 16, 1, 0, 0, 0, 3, 1, 1, 7})                // two requests, or responses
	f.Add([]byte{1, 1, 1, 0, 1, 3, 0, 1, 4, 3, 0, 0, 7, 16, 7, 0, 1, 0, 16, 0})      // a stream that is ended
	f.Add([]byte{1, 1, 1, 1, 1, 17, 3, 0, 1, 5, 255, 3, 0, 1, 6, 20, 1, 2, 3, 4, 5}) // large messages in pieces
	f.Add([]byte{1, 18, 1, 1, 1, 1, 1, 3, 0, 1, 7, 17, 255, 19, 17, 255, 8, 0, 8})   // a peer that does not read
	f.Add([]byte{1, 13, 1, 0, 20, 0, 13, 0, 5, 1, 12, 0, 0, 9, 0, 255, 23, 10, 4, 0, 0})
	f.Add([]byte{1, 1, 1, 8, 1, 3, 0, 0, 7, 1, 1, 9, 1, 3, 1, 0, 7, 1, 1, 10, 1, 3, 2, 0, 7}) // web protocols
	f.Add([]byte{0, 80, 82, 73, 32, 42})
}

// FuzzServerConversation runs a scripted client against a server.
func FuzzServerConversation(f *testing.F) {
	conversations(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > maxScript {
			return
		}
		synctest.Test(t, func(t *testing.T) { talkToServer(t, data) })
	})
}

// FuzzClientConversation runs a scripted server against a client that makes calls.
func FuzzClientConversation(f *testing.F) {
	conversations(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > maxScript {
			return
		}
		synctest.Test(t, func(t *testing.T) { talkToClient(t, data) })
	})
}
