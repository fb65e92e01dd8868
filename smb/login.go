package smb

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

// loginPause is how long a session whose login was refused does not log in again. Servers lock an account after some failed
// logins, commonly five to ten within a quarter of an hour, and every call of a program may need the connection.
const loginPause = 15 * time.Minute

// loginError is the error of a login that was refused. It matches ErrLogin and what the cause matches.
type loginError struct {
	cause error
	until time.Time // the session does not log in before; zero: there is no session
}

func (e *loginError) Error() string {
	text := "smb: login refused"
	if !e.until.IsZero() {
		text += ", and not tried again before " + e.until.Format(time.TimeOnly)
	}
	return fmt.Sprintf("%s: %v", text, e.cause)
}

func (e *loginError) Unwrap() []error { return []error{ErrLogin, e.cause} }

// noteLogin returns the error for the callers of an attempt to log in that failed with err. A refusal is kept: a session whose
// program has the credentials wrong, or no longer right, would make a failed login with each call.
func (s *Session) noteLogin(err error) error {
	if !loginRefused(err) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = &loginError{cause: err}
	if s.cur != nil || s.namespace.dialled != s { // otherwise the program's Dial fails, and there will be no session
		s.refused.until = time.Now().Add(loginPause)
	}
	return s.refused
}

// loginRefusal is the error of a login that was refused less than loginPause ago.
func (s *Session) loginRefusal() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused != nil && time.Now().Before(s.refused.until) {
		return s.refused
	}
	return nil
}

// loginRefused reports whether err, of setting up a connection, concerns the user: the server has refused the credentials, or the
// Initiator has none that a server accepts. Other refusals, such as that of a server without memory, may end by themselves.
func loginRefused(err error) bool {
	var refused *ResponseError
	if errors.As(err, &refused) && refused.Command != proto.CommandSessionSetup.String() {
		return false
	}
	return errors.Is(err, fs.ErrPermission) && !errors.Is(err, ErrConnLost)
}
