package smb2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/tarn-go/tarn/smb"
)

// NTSTATUS values that go-smb2 turns into errors of package os (MS-ERREF 2.3.1).
const (
	statusObjectNameNotFound  smb.Status = 0xC0000034
	statusObjectNameCollision smb.Status = 0xC0000035
	statusObjectPathNotFound  smb.Status = 0xC000003A
	statusAccessDenied        smb.Status = 0xC0000022
	statusCannotDelete        smb.Status = 0xC0000121
	statusRequestNotAccepted  smb.Status = 0xC00000D0
	statusDeletePending       smb.Status = 0xC0000056
)

// ErrRequestNotAccepted is returned when the server accepts no more connections
// (STATUS_REQUEST_NOT_ACCEPTED).
var ErrRequestNotAccepted = errors.New(statusRequestNotAccepted.Error())

// TransportError is returned when the connection was lost or could not be made.
type TransportError struct {
	Err error
}

// Error describes what happened to the connection.
func (err *TransportError) Error() string { return fmt.Sprintf("connection error: %v", err.Err) }

// Unwrap gives Err, which matches smb.ErrConnLost.
func (err *TransportError) Unwrap() error { return err.Err }

// InternalError is returned for an incorrect use of the API, such as a Dialer without an Initiator.
type InternalError struct {
	Message string
}

// Error is the message in go-smb2's wording.
func (err *InternalError) Error() string { return "internal error: " + err.Message }

// InvalidResponseError is returned when the server breaks the protocol or the session's security.
type InvalidResponseError struct {
	Message string

	cause error
}

// Error is the message in go-smb2's wording.
func (err *InvalidResponseError) Error() string { return "invalid response error: " + err.Message }

// Unwrap gives the error of package smb, which matches smb.ErrProtocol or smb.ErrSecurity.
func (err *InvalidResponseError) Unwrap() error { return err.cause }

// ResponseError is a status with which the server refused a request (MS-ERREF 2.3.1).
type ResponseError struct {
	Code uint32 // NTSTATUS

	cause error
}

// Error names the status.
func (err *ResponseError) Error() string {
	return "response error: " + smb.Status(err.Code).Error()
}

// Unwrap gives the error of package smb, whose smb.Status matches errors of io/fs.
func (err *ResponseError) Unwrap() error {
	if err.cause == nil {
		return smb.Status(err.Code)
	}
	return err.cause
}

// ContextError is returned when the context of a call ends. hirochachacha's go-smb2 has this type;
// cloudsoda's returns the context's error, which this one unwraps to.
type ContextError struct {
	Err error
}

// Error is the context's error.
func (err *ContextError) Error() string { return err.Err.Error() }

// Unwrap gives the context's error.
func (err *ContextError) Unwrap() error { return err.Err }

// Timeout reports whether the context's deadline passed.
func (err *ContextError) Timeout() bool { return errors.Is(err.Err, context.DeadlineExceeded) }

// translate converts err to an error of go-smb2, without the operation and the name that package smb added.
func translate(err error) error {
	for {
		switch e := err.(type) {
		case *fs.PathError:
			err = e.Err
			continue
		case *os.LinkError:
			err = e.Err
			continue
		}
		break
	}
	if err == nil || err == io.EOF {
		return err
	}
	var status smb.Status
	// The status of a lost handle is that of the attempt to open it again.
	if errors.As(err, &status) && !errors.Is(err, smb.ErrHandleLost) {
		switch status {
		case statusObjectNameCollision:
			return os.ErrExist
		case statusObjectNameNotFound, statusObjectPathNotFound:
			return os.ErrNotExist
		case statusAccessDenied, statusCannotDelete:
			return os.ErrPermission
		case statusRequestNotAccepted:
			return ErrRequestNotAccepted
		}
		return &ResponseError{Code: uint32(status), cause: err}
	}
	switch {
	case errors.Is(err, smb.ErrProtocol), errors.Is(err, smb.ErrSecurity):
		return &InvalidResponseError{Message: err.Error(), cause: err}
	case errors.Is(err, smb.ErrConnLost), errors.Is(err, smb.ErrHandleLost):
		return &TransportError{Err: err}
	case errors.Is(err, smb.ErrClosed):
		return os.ErrClosed
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &ContextError{Err: err}
	}
	return err
}

// pathError adds op and name to err, as package os does; nil and io.EOF are returned as they are.
func pathError(op, name string, err error) error {
	if err = translate(err); err == nil || err == io.EOF {
		return err
	}
	return &os.PathError{Op: op, Path: name, Err: err}
}

// linkError is pathError for two names.
func linkError(op, from, to string, err error) error {
	if err = translate(err); err == nil {
		return nil
	}
	return &os.LinkError{Op: op, Old: from, New: to, Err: err}
}
