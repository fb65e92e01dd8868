package rpc_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// cutOff is a header of HTTP/1.1 that declares more content than cutOffBody, which is a whole message of protobuf
// by itself, has.
const (
	cutOff     = "Content-Type: application/proto\r\nContent-Length: 100\r\n\r\n"
	cutOffBody = "\x0a\x05\x12\x03abc" // SimpleRequest and SimpleResponse: the payload
)

// TestWebCutOffRequest: a request of Connect whose content ends before its declared length does not reach the handler,
// although what has come can be parsed.
func TestWebCutOffRequest(t *testing.T) {
	called := make(chan struct{}, 1)
	_, url := startWeb(t, &testService{unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		called <- struct{}{}
		return &pb.SimpleResponse{}, nil
	}})
	addr, _, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	fmt.Fprintf(nc, "POST /grpc.testing.TestService/UnaryCall HTTP/1.1\r\nHost: x\r\n%s%s", cutOff, cutOffBody)
	if err := nc.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(nc), nil)
	if err == nil {
		text, _ := io.ReadAll(res.Body)
		if res.StatusCode == http.StatusOK {
			t.Errorf("the answer is %v, %q", res.Status, text)
		}
	}
	select {
	case <-called:
		t.Error("the handler was called")
	default:
	}
}

// TestWebCutOffResponse: a response of Connect whose content ends before its declared length is an error.
func TestWebCutOffResponse(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	go func() {
		nc, err := lis.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		if r, err := http.ReadRequest(bufio.NewReader(nc)); err == nil {
			_, _ = io.Copy(io.Discard, r.Body)
			fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\n%s%s", cutOff, cutOffBody)
		}
	}()
	c := pb.NewTestServiceClient(dialTarn(t, "http://"+lis.Addr().String(), rpc.WithProtocol(rpc.Connect)))
	res, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{})
	if code := status.Code(err); code != codes.Unavailable {
		t.Errorf("the answer is %v, %v", res, err)
	}
}

// TestWebUnaryOverHTTP2: requests of Connect that come in one piece and in many, and their limit, on the port of Serve,
// where they are taken by reference, and on net/http; responses declare their length.
func TestWebUnaryOverHTTP2(t *testing.T) {
	const limit = 1 << 20
	for name, start := range map[string]func(*rpc.Server) (string, *http.Client){
		"Serve": func(s *rpc.Server) (string, *http.Client) {
			lis, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			go s.Serve(lis)
			t.Cleanup(s.Stop)
			tr := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
			tr.Protocols.SetUnencryptedHTTP2(true)
			t.Cleanup(tr.CloseIdleConnections)
			return "http://" + lis.Addr().String(), &http.Client{Transport: tr}
		},
		"net/http": func(s *rpc.Server) (string, *http.Client) {
			h := httptest.NewUnstartedServer(s)
			h.EnableHTTP2 = true
			h.StartTLS()
			t.Cleanup(h.Close)
			return h.URL, h.Client()
		},
	} {
		s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.MaxRecvMsgSize(limit))
		pb.RegisterTestServiceServer(s, &testService{})
		url, client := start(s)
		for _, n := range []int{0, 1, 2030, 2048, 5000, 100_000, limit - 100, limit + 1} {
			in, err := proto.Marshal(&pb.SimpleRequest{Payload: &pb.Payload{Body: bytes.Repeat([]byte{'b'}, n)}})
			if err != nil {
				t.Fatal(err)
			}
			r, err := http.NewRequestWithContext(ctxFor(t), "POST", url+"/grpc.testing.TestService/UnaryCall", bytes.NewReader(in))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/proto")
			r.Header.Set("Accept-Encoding", "identity")
			res, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(res.Body)
			res.Body.Close()
			if n > limit {
				if res.StatusCode != http.StatusTooManyRequests {
					t.Errorf("%s: %d bytes: %v, %s", name, n, res.Status, text)
				}
				continue
			}
			var out pb.SimpleResponse
			if err != nil || proto.Unmarshal(text, &out) != nil || len(out.GetPayload().GetBody()) != n {
				t.Errorf("%s: %d bytes: %v, %v, %.100q", name, n, res.Status, err, text)
			}
			if res.ProtoMajor != 2 || res.ContentLength != int64(len(text)) {
				t.Errorf("%s: %v of %d bytes declares %d", name, res.Proto, len(text), res.ContentLength)
			}
		}
	}
}
