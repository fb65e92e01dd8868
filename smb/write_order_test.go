package smb_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// TestWritesInOrder writes to a server that allows 64 KiB in one WRITE: the requests of one ReadFrom or WriteAt are sent in the order of
// the file. impacket's server answers a WRITE behind the end of the file with success and drops it.
func TestWritesInOrder(t *testing.T) {
	eachKind(t, func(t *testing.T, s *script.Server) {
		const maxIO, length = 64 << 10, 2_000_000
		s.MaxIO = maxIO
		var end uint64
		s.Hook = func(c *script.Conn, m *script.Message) bool {
			if m.Command == proto.CommandWrite {
				off, n := le.Uint64(m.Body[8:]), le.Uint32(m.Body[4:])
				if off != end || n > maxIO {
					t.Errorf("WRITE of %d bytes at %d, when the end is %d", n, off, end)
				}
				end = off + uint64(n)
			}
			return false
		}
		f, err := scripted(t, s, smb.Dialer{})
		must(t, err)
		for what, write := range map[string]func(data []byte) (int64, error){
			"ReadFrom": func(data []byte) (int64, error) { return f.ReadFrom(bytes.NewReader(data)) },
			"WriteAt": func(data []byte) (int64, error) {
				n, err := f.WriteAt(data, 0)
				return int64(n), err
			},
		} {
			end = 0
			if _, err := f.Seek(0, io.SeekStart); err != nil {
				t.Fatal(err)
			}
			if n, err := write(make([]byte, length)); n != length || err != nil || end != length {
				t.Errorf("%s: %d, %v, written up to %d", what, n, err, end)
			}
		}
	})
}
