package smb_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// appendServer appends what is written, whatever the offset, as NTFS does for a handle that may not write elsewhere. It grants durable
// handles.
type appendServer struct {
	mu      sync.Mutex
	content []byte
	writes  int
	lose    int // the WRITE after which the connection is closed, without a reply; 0: none
	expire  int // the WRITE that is refused because the session has expired; 0: none
}

func (a *appendServer) hook(c *script.Conn, m *script.Message) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch m.Command {
	case proto.CommandCreate:
		c.Opened(m, durableGrant(), func(b []byte) { b[2] = byte(proto.OplockBatch); le.PutUint64(b[48:], uint64(len(a.content))) })
		return true
	case proto.CommandQueryInfo:
		c.S.Size = max(1, int64(len(a.content))) // 0 is 1 GiB
	case proto.CommandWrite:
		a.writes++
		if a.writes == a.expire {
			c.Refuse(m, proto.StatusNetworkSessionExpired)
			return true
		}
		n := int(le.Uint32(m.Body[4:]))
		a.content = append(a.content, m.Body[48:48+n]...)
		if a.writes == a.lose {
			c.Close()
			return true
		}
	}
	return false
}

// TestAppendNotRepeated loses the connection after an append, before its reply, in each call that appends: the bytes are not sent
// again, the call fails with ErrConnLost and counts what was acknowledged, and the next call appends behind.
func TestAppendNotRepeated(t *testing.T) {
	const maxIO = 64 << 10
	long := bytes.Repeat([]byte("0123456789abcdef"), 3*maxIO/16)
	for what, c := range map[string]struct {
		lose, acknowledged int
		data               []byte
		write              func(f *smb.File, p []byte) (int64, error)
	}{
		"Write":       {1, 0, []byte("line"), func(f *smb.File, p []byte) (int64, error) { n, err := f.Write(p); return int64(n), err }},
		"WriteString": {1, 0, []byte("line"), func(f *smb.File, p []byte) (int64, error) { n, err := f.WriteString(string(p)); return int64(n), err }},
		"Write long":  {2, maxIO, long, func(f *smb.File, p []byte) (int64, error) { n, err := f.Write(p); return int64(n), err }},
		"ReadFrom":    {2, maxIO, long, func(f *smb.File, p []byte) (int64, error) { return f.ReadFrom(bytes.NewReader(p)) }},
		"io.Copy":     {1, 0, []byte("line"), func(f *smb.File, p []byte) (int64, error) { return io.Copy(f, strings.NewReader(string(p))) }},
		"by a context": {1, 0, []byte("line"), func(f *smb.File, p []byte) (int64, error) {
			n, err := f.WithContext(t.Context()).Write(p)
			return int64(n), err
		}},
	} {
		for _, flag := range []int{os.O_WRONLY | os.O_APPEND, os.O_RDWR | os.O_APPEND | os.O_CREATE, os.O_WRONLY | os.O_APPEND | os.O_TRUNC} {
			a := &appendServer{lose: c.lose}
			s := &script.Server{Hook: a.hook, MaxIO: maxIO}
			d := smb.Dialer{Initiator: fixedKey{}, Pool: newPool(t), DialFunc: through(t, s.Dial), Limits: smb.Limits{KeepAlive: -1}}
			sess, err := d.Dial(t.Context(), "scripted")
			must(t, err)
			share, err := sess.Mount(t.Context(), "share")
			must(t, err)
			f, err := share.OpenFile("log", flag, 0o666)
			must(t, err)
			n, err := c.write(f, c.data)
			if n != int64(c.acknowledged) || !errors.Is(err, smb.ErrConnLost) {
				t.Errorf("%s: %d, %v; want %d", what, n, err, c.acknowledged)
			}
			sent := c.lose * min(maxIO, len(c.data))
			if string(a.content) != string(c.data[:sent]) {
				t.Errorf("%s: the file has %d bytes, want %d", what, len(a.content), sent)
			}
			if _, err := f.Write([]byte("next")); err != nil || string(a.content) != string(c.data[:sent])+"next" {
				t.Errorf("%s: afterwards: %v, %d bytes", what, err, len(a.content))
			}
			must(t, f.Close())
			must(t, sess.Close())
		}
	}
}

// TestAppendInOrder appends more than one WRITE may have. The second is refused because the session has expired, and sent again: no
// later one was sent before it.
func TestAppendInOrder(t *testing.T) {
	const maxIO = 64 << 10
	data := make([]byte, 4*maxIO+5)
	for i := range data {
		data[i] = byte(i / 1000)
	}
	a := &appendServer{expire: 2}
	s := &script.Server{MaxIO: maxIO, Hook: a.hook}
	d := smb.Dialer{Initiator: fixedKey{}, Pool: newPool(t), DialFunc: through(t, s.Dial), Limits: smb.Limits{KeepAlive: -1}}
	sess, err := d.Dial(t.Context(), "scripted")
	must(t, err)
	defer sess.Close()
	share, err := sess.Mount(t.Context(), "share")
	must(t, err)
	f, err := share.OpenFile("log", os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	defer f.Close()
	if n, err := f.Write(data); n != len(data) || err != nil || !bytes.Equal(a.content, data) {
		t.Errorf("%d, %v, %d bytes in the file", n, err, len(a.content))
	}
}
