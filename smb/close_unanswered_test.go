package smb_test

import (
	"bytes"
	"sync/atomic"
	"testing"

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// TestCloseUnanswered loses the connection at each CLOSE, on a server that grants no durable handles: the server has acknowledged all
// that WriteFile and Copy write, so the file is neither truncated nor written again, and what another client appends meanwhile is kept.
func TestCloseUnanswered(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 10_000)
	for _, kind := range kinds() {
		for name, write := range map[string]func(s *smb.Share) error{
			"WriteFile":           func(s *smb.Share) error { return s.WriteFile("new", data, 0o666) },
			"WriteFile read-only": func(s *smb.Share) error { return s.WriteFile("new", data, 0o444) },
			"Copy":                func(s *smb.Share) error { _, err := s.Copy("new", "big"); return err },
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				var disk memoryDisk
				disk.undurable = true
				disk.reset(map[string][]byte{"file": nil, "big": data})
				var closes atomic.Int64
				s := protections()[kind]
				s.Hook = func(c *script.Conn, m *script.Message) bool {
					if m.Command == proto.CommandClose {
						if closes.Add(1) == 1 {
							disk.nodes["new"].data = append(disk.nodes["new"].data, "more"...)
						}
						c.Close()
						return true
					}
					return disk.hook(c, m)
				}
				f, err := scripted(t, s, smb.Dialer{})
				must(t, err)
				if err := write(f.Share()); err != nil {
					t.Error(err)
				}
				if got, _ := disk.content("new"); string(got) != string(data)+"more" {
					t.Errorf("%d bytes, where %d were written and 4 appended", len(got), len(data))
				}
			})
		}
	}
}
