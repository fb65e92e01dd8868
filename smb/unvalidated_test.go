package smb_test

import (
	"errors"
	"testing"

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// TestUnvalidated makes sessions whose NEGOTIATE nothing covers: VALIDATE_NEGOTIATE_INFO is not sent where nothing above 2.1 is
// offered, and servers of 2.0.2 and 2.1 may refuse it in a signed reply.
func TestUnvalidated(t *testing.T) {
	for name, c := range map[string]struct {
		s       script.Server
		highest smb.Dialect
		refusal proto.Status
		sent    int
		want    error
	}{
		"2.0.2, not offered more":        {script.Server{Dialect: proto.Dialect202, MaxIO: 65536}, smb.SMB202, 0, 0, nil},
		"2.1, not offered more":          {script.Server{Dialect: proto.Dialect210}, smb.SMB210, 0, 0, nil},
		"2.1, answered":                  {script.Server{Dialect: proto.Dialect210}, 0, 0, 1, nil},
		"2.0.2, not supported":           {script.Server{Dialect: proto.Dialect202, MaxIO: 65536}, 0, proto.StatusNotSupported, 1, nil},
		"2.1, not supported":             {script.Server{Dialect: proto.Dialect210}, 0, proto.StatusNotSupported, 1, nil},
		"2.1, no such request":           {script.Server{Dialect: proto.Dialect210}, 0, proto.StatusInvalidDeviceRequest, 1, nil},
		"2.1, no such file":              {script.Server{Dialect: proto.Dialect210}, 0, proto.StatusFileClosed, 1, nil},
		"2.1, signed, not supported":     {script.Server{Dialect: proto.Dialect210, Signed: true}, 0, proto.StatusNotSupported, 1, nil},
		"2.1, refused for other reasons": {script.Server{Dialect: proto.Dialect210}, 0, proto.StatusAccessDenied, 1, smb.Status(proto.StatusAccessDenied)},
		"3.0, not supported":             {script.Server{Dialect: proto.Dialect300}, 0, proto.StatusNotSupported, 1, smb.ErrSecurity},
		"3.1.1, has a hash instead":      {script.Server{}, 0, proto.StatusNotSupported, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			sent := 0
			c.s.Hook = func(sc *script.Conn, m *script.Message) bool {
				if m.Command != proto.CommandIoctl || le.Uint32(m.Body[4:]) != proto.FsctlValidateNegotiate {
					return false
				}
				if sent++; c.refusal == 0 {
					return false
				}
				sc.Refuse(m, c.refusal)
				return true
			}
			f, err := scripted(t, &c.s, smb.Dialer{MaxDialect: c.highest, NoReconnect: true})
			if !errors.Is(err, c.want) || sent != c.sent {
				t.Fatalf("VALIDATE_NEGOTIATE_INFO was sent %d times, %v", sent, err)
			}
			if err == nil {
				checkRead(t, f, 1000, 12345)
			}
		})
	}
}
