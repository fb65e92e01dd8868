package rpc_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// scripted answers every request with the same bytes, in pieces.
type scripted struct {
	header http.Header
	status int
	body   []byte
	piece  int
}

// RoundTrip implements http.RoundTripper.
func (s *scripted) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		io.Copy(io.Discard, r.Body)
		r.Body.Close()
	}
	return &http.Response{StatusCode: s.status, Status: http.StatusText(s.status), Proto: "HTTP/2.0", ProtoMajor: 2, Header: s.header,
		Body: io.NopCloser(&inPieces{bytes.NewReader(s.body), s.piece}), Request: r}, nil
}

// inPieces reads at most n bytes at once.
type inPieces struct {
	r io.Reader
	n int
}

func (p *inPieces) Read(b []byte) (int, error) { return p.r.Read(b[:min(len(b), p.n)]) }

// FuzzWebAnswer gives a client arbitrary responses of gRPC-Web and Connect: envelopes, trailers, ends of
// streams in JSON, errors in JSON. Every call ends, and no memory is leaked.
func FuzzWebAnswer(f *testing.F) {
	for _, seed := range []struct {
		form   byte
		status uint16
		body   string
	}{
		{0, 200, "\x00\x00\x00\x00\x00\x80\x00\x00\x00\x0fgrpc-status: 0\n"},
		{0, 200, "\x80\x00\x00\x00\x2dgrpc-status: 5\r\ngrpc-message: a%20b\r\nx-bin: AA"},
		{0, 200, "\x81\x00\x00\x00\x01x"},
		{1, 200, "\x00\x00\x00\x00\x02\x0a\x00\x02\x00\x00\x00\x02{}"},
		{1, 200, "\x02\x00\x00\x00\x25{\"error\":{\"code\":\"internal\"}}        "},
		{1, 200, "\x03\x00\x00\x00\x01x"},
		{2, 200, "\x0a\x02\x12\x00"},
		{2, 404, `{"code":"not_found","details":[{"type":"a","value":"AAAA"}]}`},
		{3, 200, "\x01\x00\x00\x00\x03\x1f\x8b\x08"},
	} {
		f.Add(seed.form, seed.status, uint8(3), []byte(seed.body))
	}
	f.Fuzz(func(t *testing.T, form byte, code uint16, piece uint8, body []byte) {
		p, stream := rpc.Connect, form%4 != 2
		rt := &scripted{status: max(200, int(code)%600), body: body, piece: int(piece) + 1, header: http.Header{}}
		switch {
		case form%4 == 0:
			p = rpc.GRPCWeb
			rt.header.Set("Content-Type", "application/grpc-web+proto")
		case rt.status != 200:
			rt.header.Set("Content-Type", "application/json")
		case stream:
			rt.header.Set("Content-Type", "application/connect+proto")
		default:
			rt.header.Set("Content-Type", "application/proto")
		}
		if form%4 == 3 {
			rt.header.Set("Connect-Content-Encoding", "gzip")
		}
		cc, err := rpc.NewClient("http://server", rpc.WithPool(tarntest.NewPool(t)), rpc.WithProtocol(p), rpc.WithRoundTripper(rt),
			rpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<20)))
		if err != nil {
			t.Fatal(err)
		}
		defer cc.Close()
		c := pb.NewTestServiceClient(cc)
		if !stream {
			_, _ = c.UnaryCall(ctxFor(t), &pb.SimpleRequest{})
			return
		}
		s, err := c.StreamingOutputCall(ctxFor(t), &pb.StreamingOutputCallRequest{})
		for n := 0; err == nil; n++ {
			if n > len(body) {
				t.Fatal("more messages than bytes")
			}
			_, err = s.Recv()
		}
	})
}
