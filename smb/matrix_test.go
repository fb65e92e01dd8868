package smb_test

import (
	"fmt"
	"testing"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
)

// setting is one combination of server and client settings for the suite.
type setting struct {
	name   string
	server rig.Config
	client smb.Dialer
	check  func(t *testing.T, i smb.SessionInfo)
}

// matrix is every valid combination of dialect × plain, signed, encrypted × AES-128, AES-256.
func matrix() []setting {
	var list []setting
	all := []smb.Dialect{smb.SMB202, smb.SMB210, smb.SMB300, smb.SMB302, smb.SMB311}
	for _, mode := range []rig.Mode{rig.Plain, rig.Signed, rig.Encrypted} {
		for _, d := range all {
			ciphers := []smb.Cipher{0}
			if mode == rig.Encrypted {
				switch {
				case d < smb.SMB300:
					continue // has no encryption
				case d < smb.SMB311:
					ciphers = []smb.Cipher{smb.AES128CCM}
				default:
					ciphers = []smb.Cipher{smb.AES128CCM, smb.AES128GCM, smb.AES256CCM, smb.AES256GCM}
				}
			}
			for _, c := range ciphers {
				list = append(list, one(mode, d, c))
			}
		}
	}
	for _, s := range []smb.Signer{smb.HMACSHA256, smb.CMAC, smb.GMAC} {
		x := one(rig.Signed, smb.SMB311, 0)
		x.name += "/" + s.String()
		x.client.Signers = []smb.Signer{s}
		x.check = func(t *testing.T, i smb.SessionInfo) {
			if i.Signer != s || !i.Signing {
				t.Errorf("signer %v, signing %v", i.Signer, i.Signing)
			}
		}
		list = append(list, x)
	}
	for name, line := range map[string]string{
		"4 credits":     "smb2 max credits = 4",
		"64 KiB reads":  "smb2 max read = 65536",
		"64 KiB writes": "smb2 max write = 65536",
		"4 KiB replies": "smb2 max trans = 4096",
	} {
		for _, mode := range []rig.Mode{rig.Plain, rig.Encrypted} {
			x := one(mode, smb.SMB311, 0)
			x.name += "/" + name
			x.server.Global = []string{line}
			x.check = nil
			list = append(list, x)
		}
	}
	return list
}

func one(mode rig.Mode, d smb.Dialect, c smb.Cipher) setting {
	x := setting{
		name:   fmt.Sprintf("%s/%s", mode.Name(), d),
		server: rig.Config{Mode: mode},
		client: smb.Dialer{MinDialect: d, MaxDialect: d},
	}
	if c != 0 {
		x.name += "/" + c.String()
		x.client.Ciphers = []smb.Cipher{c}
		if d == smb.SMB311 { // the server allows no other algorithm, so that the client has to negotiate it
			x.server.Global = []string{"server smb3 encryption algorithms = " + c.String()}
		}
	}
	x.check = func(t *testing.T, i smb.SessionInfo) {
		if i.Dialect != d {
			t.Errorf("dialect %v, want %v", i.Dialect, d)
		}
		if (mode == rig.Signed) != i.Signing && mode != rig.Encrypted {
			t.Errorf("signing %v", i.Signing)
		}
		if (mode == rig.Encrypted) != i.Encrypted || i.Encrypted && c != 0 && i.Cipher != c {
			t.Errorf("encrypted %v with %v", i.Encrypted, i.Cipher)
		}
	}
	return x
}

// TestMatrix runs the suite over every setting.
func TestMatrix(t *testing.T) {
	rigtest.Need(t)
	for _, x := range matrix() {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel() // each spends its time waiting for its own server
			srv := rigtest.Start(t, x.server)
			share := mount(t, srv, x.client)
			if x.check != nil {
				x.check(t, share.Session().Info())
			}
			suite(t, srv, share)
		})
	}
}
