package proto

import "errors"

// ErrMalformed is matched by every error of a decoder.
var ErrMalformed = errors.New("smb: malformed message from the server")

// FormatError describes a malformed message. It matches [ErrMalformed].
type FormatError struct {
	// Message is the name of the message or structure, Reason what is wrong with it.
	Message, Reason string
}

// Error implements error.
func (e *FormatError) Error() string {
	return ErrMalformed.Error() + ": " + e.Message + ": " + e.Reason
}

// Is reports whether target is [ErrMalformed].
func (e *FormatError) Is(target error) bool { return target == ErrMalformed }

const (
	reasonShort  = "shorter than its fixed part"
	reasonSize   = "wrong structure size"
	reasonLength = "length of 2^63 bytes or more"
	reasonOrder  = "not in ascending order"
	reasonBounds = "offset or length outside the message"
)

func malformed(message, reason string) error {
	return &FormatError{Message: message, Reason: reason}
}
