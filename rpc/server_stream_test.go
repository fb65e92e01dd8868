package rpc

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// TestSendErrorOfReset: a write may find the client's reset before the call's context has ended. Handlers get CANCELED all the same, as
// with grpc-go. Other failed writes are the network's.
func TestSendErrorOfReset(t *testing.T) {
	for _, x := range []struct {
		err  error
		want codes.Code
	}{
		{nil, codes.OK},
		{&h2.StreamError{Code: h2.Cancel, Fault: h2.Told}, codes.Canceled},
		{&h2.StreamError{Code: h2.InternalError, Fault: h2.Told}, codes.Canceled},
		{&h2.StreamError{Code: h2.FlowControlError, Fault: h2.Peer}, codes.Unavailable},
		{errors.New("lost"), codes.Unavailable},
	} {
		if err := sendError(t.Context(), x.err); status.Code(err) != x.want {
			t.Errorf("%v: %v, want %v", x.err, err, x.want)
		}
	}
}

// TestSendBetweenResetAndEnd: at its deadline a call's stream is reset, and then its context ends. A handler that sends between the two gets
// DEADLINE_EXCEEDED, and the context's error is the same afterwards.
func TestSendBetweenResetAndEnd(t *testing.T) {
	for name, send := range map[string]func(grpc.ServerStream) error{
		"SendMsg":    func(s grpc.ServerStream) error { return s.SendMsg(new(emptypb.Empty)) },
		"SendHeader": func(s grpc.ServerStream) error { return s.SendHeader(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			sent, ended := make(chan error, 64), make(chan error, 64)
			s := NewServer(Pool(tarntest.NewPool(t)), WaitForHandlers(true), UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
				c := callOf(s.Context()).(*serverCall)
				c.conn.timers.Remove(&c.timer) // the test does what it would do
				<-time.After(time.Until(c.timer.At()))
				c.handle.Reset(h2.Cancel)
				sent <- send(s)
				ended <- s.Context().Err()
				return nil
			}))
			go s.Serve(l)
			t.Cleanup(s.Stop)
			cc, err := NewClient(l.Addr().String(), WithPool(tarntest.NewPool(t)), WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { cc.Close() })
			for timeout := 20 * time.Millisecond; ; timeout *= 2 {
				if called(t, cc, timeout, sent, ended) {
					return
				}
			}
		})
	}
}

// lateContext has a deadline at which it does not end, so that the server comes first.
type lateContext struct {
	context.Context
	at time.Time
}

func (c lateContext) Deadline() (time.Time, bool) { return c.at, true }

// called makes a call with a deadline and checks what the handler notes. It returns false if there was no time for the handler to begin.
func called(t *testing.T, cc *ClientConn, timeout time.Duration, sent, ended <-chan error) bool {
	ctx := lateContext{t.Context(), time.Now().Add(timeout)}
	err := cc.Invoke(ctx, "/service/Method", new(emptypb.Empty), new(emptypb.Empty))
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("the call ended with %v", err)
	}
	select {
	case err := <-sent:
		if status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("sending ended with %v", err)
		}
	case <-time.After(timeout):
		return false
	}
	if err := <-ended; err != context.DeadlineExceeded {
		t.Errorf("the context ended with %v", err)
	}
	return true
}
