package rpc

import (
	"errors"
	"testing"

	"github.com/tarn-go/tarn/h2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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
