package krb5

import (
	"bytes"
	"context"
	"encoding/asn1"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/logintest"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
	"github.com/tarn-go/tarn/tarntest"
)

// issuer is a KDC in the process: it issues a ticket for each login.
type issuer struct {
	t    *testing.T
	keys *keytab.Keytab
}

const realm = "TARN.TEST"

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	keys := keytab.New()
	if err := keys.AddEntry("cifs/scripted", realm, "secret of the service", time.Now(), 1, etypeID.AES256_CTS_HMAC_SHA1_96); err != nil {
		t.Fatal(err)
	}
	return &issuer{t, keys}
}

func (i *issuer) Start(context.Context, string) (smb.SecurityContext, error) {
	user, service := types.NewPrincipalName(nametype.KRB_NT_PRINCIPAL, "user"), types.NewPrincipalName(nametype.KRB_NT_SRV_INST, "cifs/scripted")
	now, end := time.Now(), time.Now().Add(time.Hour)
	ticket, key, err := messages.NewTicket(user, realm, service, realm, types.NewKrbFlags(), i.keys, etypeID.AES256_CTS_HMAC_SHA1_96, 1, now, now, end, end)
	if err != nil {
		return nil, err
	}
	return &securityContext{ticket: ticket, key: key, realm: realm, name: user}, nil
}

// ticketLogin is the service's side of a login.
type ticketLogin struct {
	t *testing.T
	acceptor
}

func (i *issuer) newLogin() script.Mechanism {
	return &ticketLogin{i.t, acceptor{keys: i.keys}}
}

const oidElement = "\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02"

func (*ticketLogin) OID() string { return oidElement }

func (l *ticketLogin) Accept(body []byte) (token, key []byte, err error) {
	start := []byte(oidElement + "\x01\x00")
	at := bytes.Index(body, start)
	if at < 0 {
		return nil, l.subkey.KeyValue, nil
	}
	var request asn1.RawValue
	if _, err := asn1.Unmarshal(body[at+len(start):], &request); err != nil {
		return nil, nil, err
	}
	framed, err := frame(tokenRequest, request.FullBytes)
	if err != nil {
		return nil, nil, err
	}
	return l.accept(l.t, framed), l.subkey.KeyValue[:16], nil
}

// TestLoginProved has a server deviate from a correct login by Kerberos.
func TestLoginProved(t *testing.T) {
	i := newIssuer(t)
	logintest.Run(t, logintest.Login{Initiator: i, NewMechanism: i.newLogin, Steps: 1})
}

// TestLoginLastBits changes each bit of the AP-REP on its way, and of the message around it.
func TestLoginLastBits(t *testing.T) {
	i, pool := newIssuer(t), tarntest.NewPool(t)
	bits := 1
	for bit := 0; bit < bits; bit++ {
		s := &script.Server{NewMechanism: i.newLogin, Mangle: func(frame []byte) []byte {
			msg := frame[4:]
			if msg[12] == byte(proto.CommandSessionSetup) {
				bits = 8 * len(msg)
				msg[bit/8] ^= 1 << (bit % 8)
			}
			return frame
		}}
		d := smb.Dialer{Initiator: i, Pool: pool, DialFunc: s.Dial, AllowUnsigned: true, Limits: smb.Limits{DialTimeout: 100 * time.Millisecond}}
		if sess, err := d.Dial(t.Context(), "scripted"); err == nil {
			sess.Close()
			t.Errorf("accepted with bit %d of byte %d changed", bit%8, bit/8)
		}
	}
}

// TestMIC has the server ask for signatures of the list of mechanisms (RFC 4178 5): it has to send its own.
func TestMIC(t *testing.T) {
	for name, c := range map[string]struct {
		list string
		want bool
	}{
		"of the list":       {"\x30\x0b" + oidElement, true},
		"of something else": {"\x30\x0b" + oidElement[1:] + "x", false},
		"none":              {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			i := newIssuer(t)
			var login *ticketLogin
			s := &script.Server{NewMechanism: func() script.Mechanism { login = i.newLogin().(*ticketLogin); return login }}
			s.Answer = func(_ *script.Conn, step int, a *script.Answer) {
				switch {
				case step == 0:
					a.Status, a.State = proto.StatusMoreProcessingRequired, script.RequestMIC
				case c.list != "":
					mic := gssapi.MICToken{Flags: gssapi.MICTokenFlagAcceptorSubkey | gssapi.MICTokenFlagSentByAcceptor, Payload: []byte(c.list)}
					if err := mic.SetChecksum(login.subkey, keyusage.GSSAPI_ACCEPTOR_SIGN); err != nil {
						t.Error(err)
					}
					a.MIC, _ = mic.Marshal()
				}
			}
			d := smb.Dialer{Initiator: i, Pool: tarntest.NewPool(t), DialFunc: s.Dial}
			sess, err := d.Dial(t.Context(), "scripted")
			if (err == nil) != c.want {
				t.Error(err)
			}
			if err == nil {
				sess.Close()
			}
		})
	}
}
