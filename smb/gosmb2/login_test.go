package smb2_test

import (
	"encoding/asn1"
	"errors"
	"net"
	"testing"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
	smb2 "github.com/tarn-go/tarn/smb/gosmb2"
)

// ownInitiator implements only go-smb2's interface, not smb.Initiator.
type ownInitiator struct{ i smb2.NTLMInitiator }

func (o *ownInitiator) OID() asn1.ObjectIdentifier                { return o.i.OID() }
func (o *ownInitiator) InitSecContext() ([]byte, error)           { return o.i.InitSecContext() }
func (o *ownInitiator) AcceptSecContext(b []byte) ([]byte, error) { return o.i.AcceptSecContext(b) }
func (o *ownInitiator) Sum(b []byte) []byte                       { return o.i.Sum(b) }
func (o *ownInitiator) SessionKey() []byte                        { return o.i.SessionKey() }

func TestInitiators(t *testing.T) {
	for _, mode := range []rig.Mode{rig.Plain, rig.Signed, rig.Encrypted} {
		srv := rigtest.Start(t, rig.Config{Mode: mode})
		for name, i := range map[string]smb2.Initiator{
			"password": &smb2.NTLMInitiator{User: srv.User, Password: srv.Password, TargetSPN: "cifs/x"},
			"own":      &ownInitiator{smb2.NTLMInitiator{User: srv.User, Password: srv.Password}},
		} {
			t.Run(mode.Name()+" "+name, func(t *testing.T) {
				d := dialer(t, srv)
				d.Initiator, d.Negotiator = i, smb2.Negotiator{RequireMessageSigning: true, SpecifiedDialect: 0x0302, ClientGuid: [16]byte{1}}
				d.MaxCreditBalance = 64
				nc, err := net.Dial("tcp", srv.Addr)
				must(t, err)
				s, err := d.DialConn(t.Context(), nc, srv.Addr)
				must(t, err)
				if info := s.SMB().Info(); info.Dialect != smb.SMB302 || !info.Signing {
					t.Errorf("%+v", info)
				}
				if names, err := s.ListSharenames(); len(names) == 0 || err != nil {
					t.Errorf("%v, %v", names, err)
				}
				must(t, s.Logoff())
			})
		}
	}
}

func TestInitiatorOutOfTurn(t *testing.T) {
	i := &smb2.NTLMInitiator{User: "u"}
	if _, err := i.AcceptSecContext(nil); err == nil || i.Sum(nil) != nil || i.SessionKey() != nil {
		t.Errorf("%v", err)
	}
	if _, err := i.InitSecContext(); err != nil || i.Sum(nil) != nil || i.SessionKey() != nil {
		t.Errorf("%v", err)
	}
}

func TestDialErrors(t *testing.T) {
	var ie *smb2.InternalError
	if _, err := new(smb2.Dialer).Dial(t.Context(), "127.0.0.1:1"); !errors.As(err, &ie) {
		t.Errorf("no Initiator: %v", err)
	}
	a, b := net.Pipe()
	defer b.Close()
	if _, err := new(smb2.Dialer).DialConn(t.Context(), a, "x"); !errors.As(err, &ie) {
		t.Errorf("no Initiator: %v", err)
	}
	var te *smb2.TransportError
	d := smb2.Dialer{Initiator: &smb2.NTLMInitiator{}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	l.Close()
	if _, err := d.Dial(t.Context(), l.Addr().String()); !errors.As(err, &te) || !errors.Is(err, smb.ErrConnLost) {
		t.Errorf("nobody listens: %v", err)
	}
	srv := rigtest.Start(t, rig.Config{})
	d = *dialer(t, srv)
	d.Initiator = &smb2.NTLMInitiator{User: srv.User, Password: "wrong"}
	var re *smb2.ResponseError
	if _, err := d.Dial(t.Context(), srv.Addr); !errors.As(err, &re) || re.Code != 0xC000006D {
		t.Errorf("wrong password: %v", err)
	}
}

// When the connection of a session without reconnection breaks, the error is a TransportError.
func TestLostConnection(t *testing.T) {
	srv := rigtest.Start(t, rig.Config{})
	nc, err := net.Dial("tcp", srv.Addr)
	must(t, err)
	s, err := dialer(t, srv).DialConn(t.Context(), nc, srv.Addr)
	must(t, err)
	share, err := s.Mount(srv.Share)
	must(t, err)
	f, err := share.Create("f")
	must(t, err)
	srv.Kill()
	var te *smb2.TransportError
	if _, err := f.WriteAt([]byte("x"), 0); !errors.As(err, &te) {
		t.Errorf("%v", err)
	}
	if s.Echo() == nil {
		t.Error("an ECHO on a dead connection")
	}
	f.Close()
	s.Logoff()
}
