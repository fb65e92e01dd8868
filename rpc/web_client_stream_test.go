package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// TestWebClientEndIsNoMessage: the limit on messages does not hold for the frame that has the status and the trailers.
func TestWebClientEndIsNoMessage(t *testing.T) {
	svc := &testService{output: func(_ *pb.StreamingOutputCallRequest, s pb.TestService_StreamingOutputCallServer) error {
		s.SetTrailer(metadata.Pairs("x-trail", "longer than the limit"))
		return nil
	}}
	eachWeb(t, svc, func(t *testing.T, c pb.TestServiceClient, _ int) {
		s, err := c.StreamingOutputCall(ctxFor(t), &pb.StreamingOutputCallRequest{}, grpc.MaxCallRecvMsgSize(4))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); err != io.EOF || len(s.Trailer()["x-trail"]) != 1 {
			t.Errorf("%v, trailer %v", err, s.Trailer())
		}
	})
}

func TestWebClientServerStream(t *testing.T) {
	svc := &testService{output: func(in *pb.StreamingOutputCallRequest, s pb.TestService_StreamingOutputCallServer) error {
		s.SetHeader(metadata.Pairs("x-head", "h"))
		s.SetTrailer(metadata.Pairs("x-trail", "t"))
		for _, p := range in.ResponseParameters {
			if err := s.Send(&pb.StreamingOutputCallResponse{Payload: payload(int(p.Size))}); err != nil {
				return err
			}
		}
		if st := in.GetResponseStatus(); st != nil {
			return status.Error(codes.Code(st.Code), st.Message)
		}
		return nil
	}}
	eachWeb(t, svc, func(t *testing.T, c pb.TestServiceClient, major int) {
		for _, end := range []codes.Code{codes.OK, codes.NotFound} {
			in := &pb.StreamingOutputCallRequest{}
			if end != codes.OK {
				in.ResponseStatus = &pb.EchoStatus{Code: int32(end), Message: "at the end"}
			}
			for _, n := range webSizes {
				in.ResponseParameters = append(in.ResponseParameters, &pb.ResponseParameters{Size: int32(n)})
			}
			s, err := c.StreamingOutputCall(ctxFor(t), in)
			if err != nil {
				t.Fatal(err)
			}
			if head, err := s.Header(); err != nil || !slices.Equal(head["x-head"], []string{"h"}) {
				t.Errorf("header %v, %v", head, err)
			}
			for _, n := range webSizes {
				m, err := s.Recv()
				if err != nil {
					t.Fatalf("%d bytes: %v", n, err)
				}
				if !bytes.Equal(m.GetPayload().GetBody(), body(n)) {
					t.Errorf("%d bytes arrived changed", n)
				}
			}
			_, err = s.Recv()
			if end == codes.OK && !errors.Is(err, io.EOF) || end != codes.OK && status.Code(err) != end {
				t.Errorf("the end is %v, not %v", err, end)
			}
			if _, again := s.Recv(); again != err {
				t.Errorf("after the end: %v", again)
			}
			if got := s.Trailer(); !slices.Equal(got["x-trail"], []string{"t"}) {
				t.Errorf("trailer %v", got)
			}
		}
	})
}

func TestWebClientClientStream(t *testing.T) {
	eachWeb(t, &testService{}, func(t *testing.T, c pb.TestServiceClient, major int) {
		s, err := c.StreamingInputCall(ctxFor(t))
		if err != nil {
			t.Fatal(err)
		}
		sum := 0
		for _, n := range webSizes {
			if err := s.Send(&pb.StreamingInputCallRequest{Payload: payload(n)}); err != nil {
				t.Fatal(err)
			}
			sum += n
		}
		out, err := s.CloseAndRecv()
		if err != nil || int(out.AggregatedPayloadSize) != sum {
			t.Errorf("%v, %v", out, err)
		}
		if err := s.Send(&pb.StreamingInputCallRequest{}); err == nil {
			t.Error("SendMsg after CloseSend succeeded")
		}
	})
}

func TestWebClientBothDirections(t *testing.T) {
	eachWeb(t, &testService{}, func(t *testing.T, c pb.TestServiceClient, major int) {
		if _, err := c.EmptyCall(ctxFor(t), &pb.Empty{}); err != nil { // wait until the server serves
			t.Fatal(err)
		}
		s, err := c.FullDuplexCall(ctxFor(t))
		if err != nil {
			t.Fatal(err)
		}
		if major == 1 {
			_, err := s.Recv()
			wantCode(t, err, codes.Unimplemented)
			return
		}
		for i := range 30 {
			if err := s.Send(&pb.StreamingOutputCallRequest{ResponseParameters: []*pb.ResponseParameters{{Size: int32(i * 1000)}}, Payload: payload(i * 1000)}); err != nil {
				t.Fatal(err)
			}
			m, err := s.Recv()
			if err != nil || len(m.GetPayload().GetBody()) != i*1000 {
				t.Fatalf("message %d: %v", i, err)
			}
		}
		s.CloseSend()
		if _, err := s.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("the end: %v", err)
		}
	})
}

// A stream that is cancelled, by its context or by Close of the client, ends for both sides in every state.
func TestWebClientCancel(t *testing.T) {
	gone := make(chan struct{}, 10)
	svc := &testService{output: func(in *pb.StreamingOutputCallRequest, s pb.TestService_StreamingOutputCallServer) error {
		defer func() { gone <- struct{}{} }()
		if err := s.Send(&pb.StreamingOutputCallResponse{}); err != nil {
			return err
		}
		<-s.Context().Done()
		return s.Context().Err()
	}}
	for _, p := range []rpc.Protocol{rpc.GRPCWeb, rpc.Connect} {
		for _, by := range carriers {
			t.Run(p.String()+"/"+by.name, func(t *testing.T) {
				cc := by.start(t, svc, rpc.WithProtocol(p))
				c := pb.NewTestServiceClient(cc)
				ctx, cancel := context.WithCancel(ctxFor(t))
				s, err := c.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := s.Recv(); err != nil {
					t.Fatal(err)
				}
				cancel()
				_, err = s.Recv()
				wantCode(t, err, codes.Canceled)
				<-gone
				s, err = c.StreamingOutputCall(ctxFor(t), &pb.StreamingOutputCallRequest{})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := s.Recv(); err != nil {
					t.Fatal(err)
				}
				ended := make(chan error, 1)
				go func() {
					_, err := s.Recv()
					ended <- err
				}()
				cc.Close()
				wantCode(t, <-ended, codes.Canceled)
				<-gone
				_, err = c.UnaryCall(ctxFor(t), &pb.SimpleRequest{})
				wantCode(t, err, codes.Canceled)
				_, err = c.StreamingOutputCall(ctxFor(t), &pb.StreamingOutputCallRequest{})
				wantCode(t, err, codes.Canceled)
			})
		}
	}
}

// An HTTP/1.1 server refuses a bidirectional stream although the request has not ended. The test's client
// does not know the version beforehand.
func TestWebBothDirectionsRefusedByServer(t *testing.T) {
	_, addr := startTarn(t, &testService{})
	for _, p := range []rpc.Protocol{rpc.GRPCWeb, rpc.Connect} {
		rt := &http.Transport{}
		cc, err := rpc.NewClient("http://"+addr, rpc.WithPool(tarntest.NewPool(t)), rpc.WithProtocol(p), rpc.WithRoundTripper(rt))
		if err != nil {
			t.Fatal(err)
		}
		s, err := pb.NewTestServiceClient(cc).FullDuplexCall(ctxFor(t))
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Recv()
		wantCode(t, err, codes.Unimplemented)
		cc.Close()
		rt.CloseIdleConnections()
	}
}
