package smb_test

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// copyLimiter refuses each COPYCHUNK that exceeds its limits, and states them in the refusal (MS-SMB2 3.3.5.15.6).
type copyLimiter struct {
	memoryDisk
	chunks, chunk, total uint32
	shrinking            bool // halve total after each refusal
	always               bool // refuse what keeps to the limits, too
	refused, longest     int  // refusals; bytes of the longest request
}

func (l *copyLimiter) answer(c *script.Conn, m *script.Message) bool {
	if m.Command != proto.CommandIoctl || le.Uint32(m.Body[4:]) != proto.FsctlCopyChunkWrite {
		return l.hook(c, m)
	}
	in := m.Body[le.Uint32(m.Body[24:])-proto.HeaderSize:][:le.Uint32(m.Body[28:])]
	count, total, fits := le.Uint32(in[24:]), uint32(0), true
	for x := in[32:]; len(x) >= 24; x = x[24:] {
		total += le.Uint32(x[16:])
		fits = fits && le.Uint32(x[16:]) <= l.chunk
	}
	l.longest = max(l.longest, int(total))
	if !l.always && fits && count <= l.chunks && total <= l.total {
		return l.hook(c, m)
	}
	l.refused++
	limits := le.AppendUint32(le.AppendUint32(le.AppendUint32(nil, l.chunks), l.chunk), l.total)
	if l.shrinking {
		l.total /= 2
	}
	c.Reply(m, proto.StatusInvalidParameter, ioctlAnswer(limits), script.AsAsked)
	return true
}

// copyLimited copies a file of more than one COPYCHUNK from a server with limits, twice.
func copyLimited(t *testing.T, kind string, l *copyLimiter, want []byte) (first, second error) {
	t.Helper()
	l.reset(map[string][]byte{"file": nil, "from": want})
	s := protections()[kind]
	s.Hook = l.answer
	f, err := scripted(t, s, smb.Dialer{})
	must(t, err)
	_, first = f.Share().Copy("to", "from")
	_, second = f.Share().Copy("again", "from")
	return first, second
}

// TestCopyLimits copies on servers that allow less in one COPYCHUNK than others: the client takes their limits from the refusal of the
// first requests, two of which are in flight at once, and keeps to them. With TARN_LONG=1 it does so with each server in each kind of session.
func TestCopyLimits(t *testing.T) {
	want := random(17<<20 + 123)
	for i, kind := range kinds() {
		for j, limits := range []struct {
			name                 string
			chunks, chunk, total uint32
		}{
			{"one chunk", 1, 64 << 10, 64 << 10},
			{"fewer chunks", 3, 1 << 20, 3 << 20},
			{"shorter chunks", 256, 100_000, 16 << 20},
			{"fewer bytes", 16, 1 << 20, 1_500_001},
			{"less than one", 16, 1 << 20, 4096 + 300_000},
			{"any chunks", ^uint32(0), ^uint32(0), 5 << 20},
		} {
			if j%len(kinds()) != i && os.Getenv("TARN_LONG") == "" {
				continue
			}
			t.Run(kind+"/"+limits.name, func(t *testing.T) {
				l := &copyLimiter{chunks: limits.chunks, chunk: limits.chunk, total: limits.total}
				first, second := copyLimited(t, kind, l, want)
				must(t, first)
				must(t, second)
				for _, name := range []string{"to", "again"} {
					if got, _ := l.content(name); !bytes.Equal(got, want) {
						t.Errorf("%s has other content", name)
					}
				}
				if l.refused == 0 || l.refused > 2 {
					t.Errorf("%d refusals", l.refused)
				}
			})
		}
	}
}

// TestCopyLimitsRefused copies on servers that state limits with which nothing can be copied, or refuse requests that keep to the limits
// that they have stated: the copy fails.
func TestCopyLimitsRefused(t *testing.T) {
	want := random(17<<20 + 123)
	for _, kind := range kinds() {
		for name, l := range map[string]*copyLimiter{
			"no chunks":     {chunks: 0, chunk: 1 << 20, total: 16 << 20},
			"empty chunks":  {chunks: 16, chunk: 0, total: 16 << 20},
			"no bytes":      {chunks: 16, chunk: 1 << 20, total: 0},
			"single bytes":  {chunks: 16, chunk: 1, total: 16},
			"ever less":     {chunks: 16, chunk: 1 << 20, total: 8 << 20, shrinking: true},
			"more than all": {chunks: 1 << 20, chunk: 1 << 30, total: 1 << 31, always: true},
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				first, second := copyLimited(t, kind, l, want)
				for _, err := range []error{first, second} {
					if !errors.Is(err, smb.Status(proto.StatusInvalidParameter)) {
						t.Errorf("%v, want %v", err, proto.StatusInvalidParameter)
					}
				}
				if l.refused > 6 || l.longest > 16<<20 {
					t.Errorf("%d refusals, the longest request is %d bytes", l.refused, l.longest)
				}
			})
		}
	}
}
