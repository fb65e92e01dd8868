package proto

// ErrorResponse is the body of a response whose status is an error (2.2.2).
type ErrorResponse struct {
	// Symlink is set, together with HasSymlink, when [StatusStoppedOnSymlink] reports a symbolic link that
	// the client has to follow.
	Symlink    SymlinkError
	HasSymlink bool
	// Required is the length that the output would have needed, with [StatusBufferTooSmall]; else 0.
	Required uint32
}

// SymlinkError describes the symbolic link at which the server stopped (2.2.2.2.1).
type SymlinkError struct {
	// Unparsed is the length in bytes, in UTF-16, of the end of the path that lies behind the link.
	Unparsed   uint16
	Flags      uint32 // SymlinkRelative
	Substitute []byte // UTF-16LE, aliases the message
	Print      []byte // UTF-16LE, aliases the message
}

const (
	symlinkErrorTag     = 0x4c4d5953 // "SYML"
	errorIDShareRedir   = 0x72645253
	errorContextsFixed  = 8
	symlinkErrorMinimum = 28
)

// DecodeErrorResponse reads an ERROR response. status and dialect say which data to expect; data of other
// kinds is ignored. Some servers send an error with the body of the command's response, or with none: that is
// decoded as an error without data.
func DecodeErrorResponse(msg []byte, status Status, dialect Dialect) (ErrorResponse, error) {
	const name = "ERROR response"
	var r ErrorResponse
	b, err := body(msg, name, 9, 8)
	if err != nil {
		return r, nil
	}
	data, ok := slice(b, 8, le.Uint32(b[4:]))
	if !ok {
		return r, malformed(name, reasonBounds)
	}
	if count := b[2]; dialect == Dialect311 && count > 0 {
		return r, r.contexts(data, int(count), status)
	}
	return r, r.data(data, status)
}

// contexts reads the list of error contexts that holds the error data in 3.1.1 (2.2.2.1).
func (r *ErrorResponse) contexts(b []byte, count int, status Status) error {
	const name = "error context"
	for i := range count {
		if len(b) < errorContextsFixed {
			return malformed(name, reasonShort)
		}
		n := le.Uint32(b)
		data, ok := slice(b, errorContextsFixed, n)
		if !ok {
			return malformed(name, reasonBounds)
		}
		if le.Uint32(b[4:]) != errorIDShareRedir {
			if err := r.data(data, status); err != nil {
				return err
			}
		}
		if i+1 < count {
			step := align8(errorContextsFixed + int(n))
			if step > len(b) {
				return malformed(name, reasonBounds)
			}
			b = b[step:]
		}
	}
	return nil
}

func (r *ErrorResponse) data(b []byte, status Status) error {
	switch status {
	case StatusBufferTooSmall:
		if len(b) >= 4 {
			r.Required = le.Uint32(b)
		}
	case StatusStoppedOnSymlink:
		return r.symlink(b)
	}
	return nil
}

func (r *ErrorResponse) symlink(b []byte) error {
	const name = "symbolic link error"
	if len(b) < symlinkErrorMinimum {
		return malformed(name, reasonShort)
	}
	if le.Uint32(b[4:]) != symlinkErrorTag || le.Uint32(b[8:]) != ReparseTagSymlink {
		return malformed(name, "wrong tag")
	}
	s := SymlinkError{Unparsed: le.Uint16(b[14:]), Flags: le.Uint32(b[24:])}
	var ok bool
	if s.Substitute, s.Print, ok = reparseNames(b[16:], b[symlinkErrorMinimum:]); !ok {
		return malformed(name, reasonBounds)
	}
	r.Symlink, r.HasSymlink = s, true
	return nil
}
