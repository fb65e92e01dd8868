package h2http

import (
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tarn-go/tarn"
)

// fileSource supplies what a file has in the page cache, from its offset on, which it moves. It implements h2.Source.
type fileSource struct {
	pool *tarn.Pool
	raw  syscall.RawConn
	read func(fd uintptr) // readCached, bound once
	dst  []byte           // where it reads to
	n    int              // how many bytes it has read
	err  error            // what has ended it, or nil
}

// newFileSource returns a Source of src; nil: src is no file.
func newFileSource(src io.Reader, pool *tarn.Pool) *fileSource {
	f, ok := src.(*os.File)
	if !ok {
		return nil
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return nil
	}
	s := &fileSource{pool: pool, raw: raw}
	s.read = s.readCached
	return s
}

// Supply returns up to n bytes of the file; none when it has ended, when the bytes are not in the page cache, so that reading
// them would wait for a disk, or when the file's system cannot say whether they are.
func (s *fileSource) Supply(n int) tarn.Buffer {
	b := s.pool.Get(n)
	s.dst, s.n = b.Bytes(), 0
	if err := s.raw.Control(s.read); err != nil {
		s.err = err
	}
	s.dst = nil
	if s.n == 0 {
		b.Free()
		return tarn.Buffer{}
	}
	return b.Narrow(0, s.n)
}

// currentOffset has preadv2 read from a file's offset and move it.
const currentOffset = -1

func (s *fileSource) readCached(fd uintptr) {
	vec := [1][]byte{s.dst}
	for {
		n, err := unix.Preadv2(int(fd), vec[:], currentOffset, unix.RWF_NOWAIT)
		if err == unix.EINTR {
			continue
		}
		s.n, s.err = max(n, 0), err
		return
	}
}

// usable reports whether asking s again makes sense after it has supplied nothing.
func (s *fileSource) usable() bool { return s.err == nil || s.err == unix.EAGAIN }
