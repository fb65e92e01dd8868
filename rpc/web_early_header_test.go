package rpc_test

import (
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
)

// lateBodies has requests' bodies read when the channel is closed.
type lateBodies struct {
	rt http.RoundTripper
	ch chan struct{}
}

func (l lateBodies) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Body = lateBody{r.Body, l.ch}
	return l.rt.RoundTrip(r)
}

type lateBody struct {
	io.ReadCloser
	ch chan struct{}
}

func (b lateBody) Read(p []byte) (int, error) {
	<-b.ch
	return b.ReadCloser.Read(p)
}

// TestHeaderBeforeRequest: the header of a response may come before the round tripper has read the request.
func TestHeaderBeforeRequest(t *testing.T) {
	for _, p := range []rpc.Protocol{rpc.GRPCWeb, rpc.Connect} {
		t.Run(p.String(), func(t *testing.T) {
			svc := &testService{}
			_, addr := startTarn(t, svc, rpc.StreamInterceptor(func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) error {
				if err := ss.SendHeader(metadata.Pairs("h", "1")); err != nil {
					return err
				}
				return h(srv, ss)
			}))
			two := &h2http.Transport{Config: h2http.Config{Pool: tarntest.NewPool(t)}}
			t.Cleanup(two.CloseIdleConnections)
			late := lateBodies{two, make(chan struct{})}
			c := pb.NewTestServiceClient(dialBy(t, addr, late, rpc.WithProtocol(p)))
			st, err := c.StreamingOutputCall(ctxFor(t), &pb.StreamingOutputCallRequest{Payload: payload(100), ResponseParameters: []*pb.ResponseParameters{{Size: 10}}})
			if err != nil {
				t.Fatal(err)
			}
			if md, err := st.Header(); err != nil || len(md["h"]) != 1 {
				t.Fatal(md, err)
			}
			close(late.ch)
			for err == nil {
				_, err = st.Recv()
			}
			if !errors.Is(err, io.EOF) {
				t.Error(err)
			}
		})
	}
}
