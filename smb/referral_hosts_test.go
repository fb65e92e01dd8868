package smb_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// TestReferralHosts follows DFS links to hosts of the server's domain, and not to others: these are not dialled.
func TestReferralHosts(t *testing.T) {
	anything := func(string) bool { return true }
	for _, x := range []struct {
		dialled, target string
		allow           func(string) bool
		dials           string // "": refused
	}{
		{"fs1.corp.example.com", "FS2.corp.example.com", nil, "FS2.corp.example.com"},
		{"fs1.corp.example.com", "corp.example.com", nil, "corp.example.com"},
		{"fs1.corp.example.com", "a.b.corp.example.com.", nil, "a.b.corp.example.com."},
		{"fs1.corp.example.com", "FS2", nil, "FS2.corp.example.com"},
		{"fs1.corp.example.com", "fs2.other.example.com", nil, ""},
		{"fs1.corp.example.com", "fs1.evilcorp.example.com", nil, ""},
		{"fs1.corp.example.com", "127.0.0.1", nil, ""},
		{"fs1.corp.example.com", "127.0.0.1", anything, "127.0.0.1"},
		{"fs1.corp.example.com", "FS2", anything, "FS2"},
		{"example.com", "fs2.example.com", nil, "fs2.example.com"},
		{"example.com", "other.com", nil, ""},
		{"nas.local", "nas2", nil, ""},
		{"fs1", "fs2", nil, "fs2"},
		{"fs1", "fs2.example.com", nil, ""},
		{"192.0.2.1", "192.0.2.2", nil, ""},
		{"192.0.2.1", "fs2", nil, ""},
		{"fs1.corp.example.com", "fs2.corp.example.com", func(string) bool { return false }, ""},
	} {
		t.Run(x.dialled+" to "+x.target, func(t *testing.T) {
			s := &script.Server{}
			s.Hook = func(c *script.Conn, m *script.Message) bool {
				switch {
				case m.Command == proto.CommandCreate && script.NameOf(m) == `link\file`:
					c.Refuse(m, proto.StatusPathNotCovered)
					return true
				case m.Command == proto.CommandIoctl && le.Uint32(m.Body[4:]) == proto.FsctlDFSGetReferrals:
					c.Reply(m, 0, ioctlAnswer(referralAnswer(`\`+x.dialled+`\share\link`, `\`+x.target+`\space`, time.Minute)), script.AsAsked)
					return true
				}
				return false
			}
			var dialled []string
			d := smb.Dialer{Initiator: fixedKey{}, Pool: newPool(t), Limits: smb.Limits{KeepAlive: -1}, AllowReferral: x.allow,
				DialFunc: func(ctx context.Context, n, addr string) (net.Conn, error) {
					dialled = append(dialled, addr)
					return through(t, s.Dial)(ctx, n, addr)
				}}
			session, err := d.Dial(t.Context(), x.dialled)
			must(t, err)
			defer session.Close()
			share, err := session.Mount(t.Context(), "share")
			must(t, err)
			_, err = share.Stat("link/file")
			want := []string{x.dialled + ":445"}
			if x.dials != "" {
				want = append(want, x.dials+":445")
			}
			if !slices.Equal(dialled, want) || errors.Is(err, smb.ErrReferral) != (x.dials == "") || (err == nil) != (x.dials != "") {
				t.Errorf("dialled %q, %v; want %q", dialled, err, want)
			}
		})
	}
}
