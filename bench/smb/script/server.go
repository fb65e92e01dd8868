// Package script is an SMB 3.1.1 server for benchmarks: it lets anybody with the right
// password in, serves one endless file of no particular content, and allocates nothing
// while it reads and writes, so that what a benchmark counts is the client's.
package script

import (
	"encoding/binary"
	"errors"
	"io"
	"net"

	"github.com/tarn-go/tarn/smb/internal/crypt"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// Credentials the server knows.
const (
	User     = "bench"
	Password = "scripted"
	Share    = "share"
)

// Mode is how the server protects its messages.
type Mode int

// Modes.
const (
	Plain Mode = iota
	Signed
	Encrypted
)

// String is the mode in one word, for the names of benchmarks.
func (m Mode) String() string { return [...]string{"plain", "signed", "encrypted"}[m] }

// MaxIO is the longest read and write in bytes.
const MaxIO = 1 << 20

const (
	lengthSize = 4
	// head is what stands before a message in the buffers: the length and the TRANSFORM header.
	head = lengthSize + crypt.Overhead
	room = head + MaxIO + 4096 + crypt.Spare
)

var errFrame = errors.New("script: frame too long")

// server serves one connection.
type server struct {
	mode Mode
	conn net.Conn
	in   []byte
	out  []byte // what stands at a payload's place stays there: nobody looks at it

	preauth   crypt.Preauth
	cipher    proto.Cipher
	algorithm proto.SigningAlgorithm
	gmac      bool // the client asked for a signing algorithm at all
	challenge []byte
	signer    crypt.Signer
	sealer    *crypt.Sealer
	opener    *crypt.Opener
	sealed    bool // the request being answered was encrypted
	signed    bool // it was signed
}

// Serve serves conn until it ends. It closes conn.
func Serve(conn net.Conn, mode Mode) error {
	defer conn.Close()
	s := &server{mode: mode, conn: conn, in: make([]byte, room), out: make([]byte, room)}
	for {
		frame, err := s.receive()
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
		if err := s.answer(frame); err != nil {
			return err
		}
	}
}

// receive reads one frame and decrypts it.
func (s *server) receive() ([]byte, error) {
	if _, err := io.ReadFull(s.conn, s.in[:lengthSize]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(s.in))
	if n > len(s.in)-crypt.Spare {
		return nil, errFrame
	}
	if _, err := io.ReadFull(s.conn, s.in[:n]); err != nil {
		return nil, err
	}
	s.sealed = proto.Protocol(s.in[:n]) == proto.ProtocolTransform
	if s.sealed {
		return s.opener.Open(s.in[:n+crypt.Spare])
	}
	return s.in[:n], nil
}

// answer answers the messages of one frame in one frame.
func (s *server) answer(frame []byte) error {
	dst := s.out[:head]
	start := head
	var sessionID uint64
	e := proto.NewElements(frame)
	s.signed = false
	for e.Next() {
		req, err := proto.DecodeHeader(e.Message())
		if err != nil {
			return err
		}
		if req.Command == proto.CommandCancel {
			continue
		}
		if len(dst) > head {
			dst = proto.PadCompound(dst, start)
			s.sign(dst[start:])
		}
		start, sessionID = len(dst), req.SessionID
		s.signed = req.Flags&proto.FlagSigned != 0
		if dst, err = s.reply(dst, &req, e.Message()); err != nil {
			return err
		}
	}
	if e.Err() != nil || len(dst) == head {
		return e.Err()
	}
	s.sign(dst[start:])
	return s.send(dst, sessionID)
}

// sign signs the answer to a signed request and the end of a login (3.3.4.1.1), unless
// the whole frame will be encrypted.
func (s *server) sign(msg []byte) {
	last := proto.Command(le.Uint16(msg[proto.OffsetCommand:])) == proto.CommandSessionSetup
	if s.signer == nil || s.sealed || !s.signed && !last {
		return
	}
	flags := le.Uint32(msg[proto.OffsetFlags:])
	le.PutUint32(msg[proto.OffsetFlags:], flags|uint32(proto.FlagSigned))
	s.signer.Sign(msg, nil)
}

// send sends what stands behind head in one write.
func (s *server) send(dst []byte, sessionID uint64) error {
	n := len(dst) - head
	if !s.sealed {
		frame := s.out[head-lengthSize : len(dst)]
		binary.BigEndian.PutUint32(frame, uint32(n))
		_, err := s.conn.Write(frame)
		return err
	}
	if err := s.sealer.Seal(s.out[lengthSize:len(dst)+crypt.Spare], sessionID); err != nil {
		return err
	}
	binary.BigEndian.PutUint32(s.out, uint32(crypt.Overhead+n))
	_, err := s.conn.Write(s.out[:len(dst)])
	return err
}
