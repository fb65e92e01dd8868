package conn

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/tarn-go/tarn/smb/internal/directtcp"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// Classes of errors that end a connection. Package smb exports them under its own names.
var (
	// ErrLost is matched when the connection broke.
	ErrLost = errors.New("smb: connection lost")
	// ErrProtocol is matched when the server broke the protocol.
	ErrProtocol = errors.New("smb: the server broke the protocol")
	// ErrSecurity is matched when a reply or the server lacks the security that is required. The cause is the
	// server, or an attacker on the path.
	ErrSecurity = errors.New("smb: security requirement not met")
)

// ErrGuest is matched, and ErrSecurity too, when the server accepted a user with credentials as a guest, or as the
// anonymous user, and AllowGuest would have allowed that.
var ErrGuest = errors.New("the server accepted the user as a guest, without checking the password; Dialer.AllowGuest allows that")

// ErrNoCredits is returned when a request would have to wait for credits and its caller asked not to, and
// when the requests of a compound have to be sent one by one because the server does not grant as many
// credits as they cost, or because the dialect is 2.0.2. Nothing was sent.
var ErrNoCredits = errors.New("smb: no credits available")

// connError is the reason for the end of a connection: its class and what happened.
type connError struct {
	class error
	cause error
}

func (e *connError) Error() string   { return e.class.Error() + ": " + e.cause.Error() }
func (e *connError) Unwrap() []error { return []error{e.class, e.cause} }

// ProtocolError is an error of class ErrProtocol.
func ProtocolError(text string) error { return &connError{ErrProtocol, errors.New(text)} }

func securityError(text string) error { return &connError{ErrSecurity, errors.New(text)} }

// classified adds a class to a network error; an error that has a class is returned as it is.
func classified(err error) error {
	if err == nil {
		return nil
	}
	var classed *connError
	switch {
	case errors.As(err, &classed):
		return err
	case errors.Is(err, proto.ErrMalformed), errors.Is(err, directtcp.ErrHeader):
		return &connError{ErrProtocol, err}
	case err == io.EOF, err == io.ErrUnexpectedEOF:
		return &connError{ErrLost, errors.New("the server closed the connection")}
	}
	return &connError{ErrLost, err}
}

// contextError is the error of an ended context. It matches os.ErrDeadlineExceeded as a connection's own
// deadline does.
type contextError struct{ err error }

// ContextError is the error of an operation whose context ctx has ended.
func ContextError(ctx context.Context) error { return &contextError{context.Cause(ctx)} }

func (e *contextError) Error() string   { return "smb: " + e.err.Error() }
func (e *contextError) Unwrap() error   { return e.err }
func (e *contextError) Timeout() bool   { return errors.Is(e.err, context.DeadlineExceeded) }
func (e *contextError) Temporary() bool { return e.Timeout() }
func (e *contextError) Is(target error) bool {
	return target == os.ErrDeadlineExceeded && e.Timeout()
}

// Refusal is a reply with a status other than success.
type Refusal struct {
	Command proto.Command
	Status  proto.Status
	// Dialect and Message are needed to decode the reply's error data. Message is valid until Config.Refused
	// returns.
	Dialect proto.Dialect
	Message []byte
}
