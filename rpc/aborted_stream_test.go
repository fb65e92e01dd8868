package rpc_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

// abortedLimit is how long messages of an abortedService may be.
const abortedLimit = 1000

// abortedService is a service whose handlers continue after an error of SendMsg or RecvMsg, and return what then makes of it.
type abortedService struct {
	testService
	then func(error) error
}

func (s *abortedService) StreamingOutputCall(_ *pb.StreamingOutputCallRequest, stream pb.TestService_StreamingOutputCallServer) error {
	long := make([]byte, 2*abortedLimit)
	rand.NewChaCha8([32]byte{}).Read(long) // compressing it, which Connect's clients accept, does not make it shorter
	err := stream.Send(&pb.StreamingOutputCallResponse{Payload: &pb.Payload{Body: long}})
	if err == nil {
		return errors.New("too long a message was sent")
	}
	_ = stream.Send(&pb.StreamingOutputCallResponse{Payload: payload(1)})
	return s.then(err)
}

func (s *abortedService) StreamingInputCall(stream pb.TestService_StreamingInputCallServer) error {
	_, err := stream.Recv()
	if err == nil || err == io.EOF {
		return errors.New("too long a message was received")
	}
	_ = stream.SendAndClose(&pb.StreamingInputCallResponse{})
	return s.then(err)
}

// TestErrorAbortsTheStream: a call whose handler's SendMsg or RecvMsg has failed ends with the status of that error, whatever the handler
// does and returns afterwards, as package grpc says of ServerStream.
func TestErrorAbortsTheStream(t *testing.T) {
	for what, then := range map[string]func(error) error{
		"OK":             func(error) error { return nil },
		"another status": func(err error) error { return status.Errorf(codes.Internal, "failed: %v", err) },
	} {
		svc := &abortedService{then: then}
		_, ours := startTarn(t, svc, rpc.MaxSendMsgSize(abortedLimit), rpc.MaxRecvMsgSize(abortedLimit))
		_, theirs := startGRPC(t, svc, grpc.MaxSendMsgSize(abortedLimit), grpc.MaxRecvMsgSize(abortedLimit))
		for name, cc := range map[string]grpc.ClientConnInterface{
			"tarn":     dialTarn(t, ours),
			"grpc-go":  dialTarn(t, theirs),
			"Connect":  dialTarn(t, ours, rpc.WithProtocol(rpc.Connect)),
			"gRPC-Web": dialTarn(t, ours, rpc.WithProtocol(rpc.GRPCWeb)),
		} {
			c := pb.NewTestServiceClient(cc)
			s, err := c.StreamingOutputCall(ctxFor(t), &pb.StreamingOutputCallRequest{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.Recv()
			if status.Code(err) != codes.ResourceExhausted {
				t.Errorf("%s: the handler returns %s after an error of SendMsg: %v", name, what, err)
			}
			in, err := c.StreamingInputCall(ctxFor(t))
			if err != nil {
				t.Fatal(err)
			}
			// The call may have ended before: CloseAndRecv returns its status.
			_ = in.Send(&pb.StreamingInputCallRequest{Payload: payload(2 * abortedLimit)})
			if _, err := in.CloseAndRecv(); status.Code(err) != codes.ResourceExhausted {
				t.Errorf("%s: the handler returns %s after an error of RecvMsg: %v", name, what, err)
			}
		}
	}
}

// TestAbortEndsASend: the failing RecvMsg of one goroutine of a handler ends the SendMsg of another, which waits for the client, and the
// handler's context. The client gets RecvMsg's status.
func TestAbortEndsASend(t *testing.T) {
	done := make(chan error, 2)
	svc := &testService{duplex: func(s pb.TestService_FullDuplexCallServer) error {
		sending := make(chan error)
		go func() {
			for {
				if err := s.Send(&pb.StreamingOutputCallResponse{Payload: payload(1 << 20)}); err != nil {
					sending <- err
					return
				}
			}
		}()
		_, err := s.Recv()
		done <- err
		<-s.Context().Done()
		done <- <-sending
		return nil
	}}
	_, addr := startTarn(t, svc, rpc.MaxRecvMsgSize(1000))
	ctx, cancel := context.WithCancel(ctxFor(t))
	defer cancel()
	s, err := pb.NewTestServiceClient(dialTarn(t, addr)).FullDuplexCall(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(&pb.StreamingOutputCallRequest{Payload: payload(2000)}); err != nil {
		t.Fatal(err)
	}
	wantCode(t, <-done, codes.ResourceExhausted)
	if err := <-done; err == nil {
		t.Error("a SendMsg of an aborted stream did not fail")
	}
	for err = nil; err == nil; {
		_, err = s.Recv()
	}
	wantCode(t, err, codes.ResourceExhausted)
}

// abortedWays calls f with each way in which calls reach a server of rpc's, and a function that serves svc in it with a limit of its messages.
func abortedWays(t *testing.T, f func(t *testing.T, w way, serves func(*testing.T, pb.TestServiceServer) *rpc.ClientConn)) {
	faultnet.NeedsTCP(t, "net/http serves and dials")
	for _, w := range ways {
		if w.grpcgo {
			continue
		}
		t.Run(w.name, func(t *testing.T) {
			f(t, w, func(t *testing.T, svc pb.TestServiceServer) *rpc.ClientConn {
				s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true), rpc.MaxSendMsgSize(abortedLimit))
				pb.RegisterTestServiceServer(s, svc)
				if w.http == nil {
					return w.dial(t, serve(t, s))
				}
				t.Cleanup(s.Stop)
				return w.dial(t, w.http(t, s))
			})
		})
	}
}

// TestHeaderAfterAnAbortedStream: the header has been sent with the status of an aborted stream, and nothing can be added to it.
func TestHeaderAfterAnAbortedStream(t *testing.T) {
	for when, begin := range map[string]func(pb.TestService_StreamingOutputCallServer) error{
		"at the first message": func(pb.TestService_StreamingOutputCallServer) error { return nil },
		"at the second message": func(s pb.TestService_StreamingOutputCallServer) error {
			return s.Send(&pb.StreamingOutputCallResponse{})
		},
	} {
		t.Run(when, func(t *testing.T) {
			abortedWays(t, func(t *testing.T, _ way, serves func(*testing.T, pb.TestServiceServer) *rpc.ClientConn) {
				cc := serves(t, &testService{output: func(_ *pb.StreamingOutputCallRequest, s pb.TestService_StreamingOutputCallServer) error {
					if err := begin(s); err != nil {
						return err
					}
					wantCode(t, s.Send(&pb.StreamingOutputCallResponse{Payload: incompressible(2 * abortedLimit)}), codes.ResourceExhausted)
					if s.SetHeader(pairs("late", "1")) == nil {
						t.Error("SetHeader succeeds")
					}
					if s.SendHeader(pairs("late", "1")) == nil {
						t.Error("SendHeader succeeds")
					}
					if rpc.SetSendCompressor(s.Context(), "gzip") == nil {
						t.Error("SetSendCompressor succeeds")
					}
					return nil
				}})
				s, err := pb.NewTestServiceClient(cc).StreamingOutputCall(ctxFor(t), &pb.StreamingOutputCallRequest{})
				for err == nil {
					_, err = s.Recv()
				}
				wantCode(t, err, codes.ResourceExhausted)
				if h, _ := s.Header(); len(h["late"]) > 0 {
					t.Error("the client has got a header")
				}
			})
		})
	}
}

// TestAbortWakesAReceiver: a message that cannot be sent ends the RecvMsg of another goroutine of the handler, and the calls that follow on the same
// connection are not affected.
func TestAbortWakesAReceiver(t *testing.T) {
	long := incompressible(2 * abortedLimit)
	// exchange receives until the stream is aborted, which SendMsg does once a first message has come.
	exchange := func(t *testing.T, s grpc.ServerStream, v any) {
		first, woken := make(chan error), make(chan error, 1)
		go func() {
			first <- s.RecvMsg(new(pb.StreamingOutputCallRequest))
			woken <- s.RecvMsg(new(pb.StreamingOutputCallRequest))
		}()
		if err := <-first; err != nil {
			t.Error(err)
		}
		wantCode(t, s.SendMsg(v), codes.ResourceExhausted)
		select {
		case err := <-woken:
			if err == nil || err == io.EOF {
				t.Errorf("RecvMsg of the aborted stream: %v", err)
			}
		case <-time.After(hang):
			t.Error("RecvMsg of the aborted stream does not return")
		}
	}
	for _, timeout := range []time.Duration{0, time.Hour} {
		t.Run(timeout.String(), func(t *testing.T) {
			abortedWays(t, func(t *testing.T, w way, serves func(*testing.T, pb.TestServiceServer) *rpc.ClientConn) {
				k := streamings[3]
				if w.major == 1 {
					k = streamings[1]
				}
				cc := serves(t, &receivingService{receive: func(s grpc.ServerStream) error {
					exchange(t, s, &pb.StreamingOutputCallResponse{Payload: long})
					return nil
				}})
				for range 3 {
					ctx := ctxFor(t)
					if timeout > 0 {
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), timeout)
						defer cancel()
					}
					s, err := cc.NewStream(ctx, &k.desc, testServicePath+k.method)
					if err != nil {
						t.Fatal(err)
					}
					if err := s.SendMsg(&pb.StreamingOutputCallRequest{}); err != nil {
						t.Fatal(err)
					}
					wantCode(t, s.RecvMsg(new(pb.StreamingOutputCallResponse)), codes.ResourceExhausted)
					if _, err := pb.NewTestServiceClient(cc).EmptyCall(ctxFor(t), &pb.Empty{}); err != nil {
						t.Errorf("the next call: %v", err)
					}
				}
			})
		})
	}
}

// receivingService receives messages as the test says.
type receivingService struct {
	testService
	receive func(grpc.ServerStream) error
}

func (s *receivingService) FullDuplexCall(st pb.TestService_FullDuplexCallServer) error {
	return s.receive(st)
}
func (s *receivingService) StreamingInputCall(st pb.TestService_StreamingInputCallServer) error {
	return s.receive(st)
}
