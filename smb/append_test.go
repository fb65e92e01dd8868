package smb_test

import (
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// TestAppendAsksForLength holds that every write to a file that was opened for appending asks the server for the file's length
// first, and goes there.
func TestAppendAsksForLength(t *testing.T) { eachKind(t, testAppendAsksForLength) }

func testAppendAsksForLength(t *testing.T, s *script.Server) {
	const length = 1000 // as the server reports it, whatever is written
	var mu sync.Mutex
	var asked []proto.Command
	var offsets []uint64
	s.Size = length
	s.Hook = func(_ *script.Conn, m *script.Message) bool {
		mu.Lock()
		defer mu.Unlock()
		switch m.Command {
		case proto.CommandWrite:
			offsets = append(offsets, le.Uint64(m.Body[8:]))
			fallthrough
		case proto.CommandQueryInfo:
			asked = append(asked, m.Command)
		}
		return false
	}
	f, err := scripted(t, s, smb.Dialer{})
	must(t, err)
	g, err := f.Share().OpenFile("file", os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	for range 2 {
		_, err = g.Write([]byte("1"))
		must(t, err)
	}
	_, err = io.Copy(g, strings.NewReader("2"))
	must(t, err)
	mu.Lock()
	defer mu.Unlock()
	ask, write := proto.CommandQueryInfo, proto.CommandWrite
	if !slices.Equal(asked, []proto.Command{ask, write, ask, write, ask, write}) || !slices.Equal(offsets, []uint64{length, length, length}) {
		t.Errorf("%v, at %v", asked, offsets)
	}
}
