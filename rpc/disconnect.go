package rpc

import (
	"context"
	"errors"
	"os"
	"syscall"

	"github.com/tarn-go/tarn/h2"
)

// disconnectError is gRFC A94's name for the error that a connection ended with.
func disconnectError(err error) string {
	var away *h2.GoAwayError
	var ended *h2.ConnError
	var number syscall.Errno
	switch {
	case errors.As(err, &away):
		return "GOAWAY " + away.Code.String()
	case errors.As(err, &ended) && ended.Fault == h2.Told: // a GOAWAY came before
		return "GOAWAY " + ended.Code.String()
	case errors.Is(err, context.Canceled):
		return "subchannel shutdown"
	case errors.Is(err, syscall.ECONNRESET):
		return "connection reset"
	case errors.Is(err, syscall.ETIMEDOUT), errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "connection timed out"
	case errors.Is(err, syscall.ECONNABORTED):
		return "connection aborted"
	case errors.As(err, &number):
		return "socket error"
	}
	return "unknown"
}
