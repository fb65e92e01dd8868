package krb5

import (
	"bytes"
	"context"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/asnAppTag"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/msgtype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/tarn-go/tarn/internal/rig/kdc"
	"github.com/tarn-go/tarn/smb"
)

// acceptor is the server's side, half of which is gokrb5's: it decrypts the AP-REQ with the service's keytab
// and makes the AP-REP.
type acceptor struct {
	keys    *keytab.Keytab
	key     types.EncryptionKey // of the ticket
	auth    types.Authenticator
	subkey  types.EncryptionKey
	spoil   func(*messages.EncAPRepPart)
	keyless bool
}

func (a *acceptor) accept(t *testing.T, token []byte) []byte {
	t.Helper()
	kind, b, err := unframe(token)
	if err != nil || kind != tokenRequest {
		t.Fatalf("kind %#x, %v", kind, err)
	}
	var req messages.APReq
	if err := req.Unmarshal(b); err != nil {
		t.Fatal(err)
	}
	if err := req.Ticket.DecryptEncPart(a.keys, nil); err != nil {
		t.Fatal(err)
	}
	a.key = req.Ticket.DecryptedEncPart.Key
	if err := req.DecryptAuthenticator(a.key); err != nil {
		t.Fatal(err)
	}
	a.auth = req.Authenticator
	part := messages.EncAPRepPart{CTime: a.auth.CTime, Cusec: a.auth.Cusec, SequenceNumber: 5}
	if !a.keyless {
		a.subkey = types.EncryptionKey{KeyType: a.key.KeyType, KeyValue: bytes.Repeat([]byte{9}, len(a.key.KeyValue))}
		part.Subkey = a.subkey
	}
	if a.spoil != nil {
		a.spoil(&part)
	}
	return makeReply(t, part, a.key)
}

func makeReply(t testing.TB, part messages.EncAPRepPart, key types.EncryptionKey) []byte {
	t.Helper()
	plain, err := marshalTagged(part, asnAppTag.EncAPRepPart)
	if err != nil {
		t.Fatal(err)
	}
	enc, err := crypto.GetEncryptedData(plain, key, keyusage.AP_REP_ENCPART, 1)
	if err != nil {
		t.Fatal(err)
	}
	b, err := marshalTagged(messages.APRep{PVNO: 5, MsgType: msgtype.KRB_AP_REP, EncPart: enc}, asnAppTag.APREP)
	if err != nil {
		t.Fatal(err)
	}
	token, err := frame(tokenReply, b)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func marshalTagged(v any, tag int) ([]byte, error) {
	b, err := asn1.Marshal(v)
	if err != nil {
		return nil, err
	}
	return asn1tools.AddASNAppTag(b, tag), nil
}

func service(t *testing.T, k *kdc.KDC) *keytab.Keytab {
	t.Helper()
	keys, err := keytab.Load(k.AddKeytab(t, "cifs/files.tarn.test"))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func begin(t *testing.T, cfg Config) (smb.SecurityContext, error) {
	t.Helper()
	i, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.Close)
	return i.Start(t.Context(), "files.tarn.test")
}

// TestCredentials uses each kind of credential with a KDC: the service's keytab decrypts the client's token,
// and both sides have one key.
func TestCredentials(t *testing.T) {
	k := kdc.Start(t)
	keys := service(t, k)
	k.AddUser(t, "alice")
	robot := k.AddKeytab(t, "robot")
	for name, cfg := range map[string]Config{
		"password": {User: "alice", Password: kdc.Password},
		"keytab":   {User: "robot", Realm: kdc.Realm, Keytab: robot},
		"ccache":   {CCache: "FILE:" + k.CCache(t, "alice")},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.ConfigFile = k.KRB5Conf
			for _, keyless := range []bool{false, true} {
				c, err := begin(t, cfg)
				if err != nil {
					t.Fatal(err)
				}
				converse(t, c, &acceptor{keys: keys, keyless: keyless})
			}
		})
	}
}

// TestCCacheRenewed has the ticket of a credential cache expire. Once another program has renewed it there, for the same user, the
// initiator uses the new one.
func TestCCacheRenewed(t *testing.T) {
	k := kdc.Start(t)
	keys := service(t, k)
	k.AddUser(t, "alice")
	k.AddUser(t, "bob")
	fresh, err := os.ReadFile(k.CCache(t, "alice"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(k.CCache(t, "bob"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ccache")
	write := func(b []byte) {
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(expired(t, fresh))
	i, err := New(Config{CCache: file, ConfigFile: k.KRB5Conf})
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	for _, useless := range [][]byte{expired(t, fresh), other, nil} {
		write(useless)
		if _, err := i.Start(t.Context(), "files.tarn.test"); !errors.Is(err, ErrTicket) {
			t.Errorf("with an expired ticket: %v", err)
		}
	}
	write(fresh)
	c, err := i.Start(t.Context(), "files.tarn.test")
	if err != nil {
		t.Fatal(err)
	}
	converse(t, c, &acceptor{keys: keys})
}

// TestCCacheTruncated reads each prefix of a credential cache.
func TestCCacheTruncated(t *testing.T) {
	k := kdc.Start(t)
	k.AddUser(t, "alice")
	whole, err := os.ReadFile(k.CCache(t, "alice"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ccache")
	for n := range whole {
		if err := os.WriteFile(file, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		i, err := New(Config{CCache: file, ConfigFile: k.KRB5Conf})
		if err == nil { // the tickets that were cut off are not needed
			i.Close()
		} else if !errors.Is(err, ErrConfig) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// expired is a credential cache whose tickets ended yesterday.
func expired(t *testing.T, ccache []byte) []byte {
	t.Helper()
	var c credentials.CCache
	if err := c.Unmarshal(ccache); err != nil {
		t.Fatal(err)
	}
	b := bytes.Clone(ccache)
	for _, cred := range c.GetEntries() {
		end := binary.BigEndian.AppendUint32(nil, uint32(cred.EndTime.Unix()))
		b = bytes.ReplaceAll(b, end, binary.BigEndian.AppendUint32(nil, uint32(cred.EndTime.AddDate(0, 0, -2).Unix())))
	}
	return b
}

func converse(t *testing.T, c smb.SecurityContext, a *acceptor) {
	t.Helper()
	token, err := c.Step(t.Context(), nil)
	if err != nil || c.Done() || c.SessionKey() != nil {
		t.Fatalf("first step: %v, done %v", err, c.Done())
	}
	last, err := c.Step(t.Context(), a.accept(t, token))
	if err != nil || last != nil || !c.Done() {
		t.Fatalf("second step: %x, %v", last, err)
	}
	want, flags := a.subkey, byte(gssapi.MICTokenFlagAcceptorSubkey)
	if a.keyless {
		want, flags = a.auth.SubKey, 0
	}
	if !bytes.Equal(c.SessionKey(), want.KeyValue) {
		t.Errorf("session keys %x and %x", c.SessionKey(), want.KeyValue)
	}
	mic, err := c.MIC([]byte("list"))
	if err != nil {
		t.Fatal(err)
	}
	var ours gssapi.MICToken
	if err := ours.Unmarshal(mic, false); err != nil {
		t.Fatal(err)
	}
	ours.Payload = []byte("list")
	if ok, err := ours.Verify(want, keyusage.GSSAPI_INITIATOR_SIGN); !ok || ours.Flags != flags || ours.SndSeqNum != uint64(a.auth.SeqNumber) {
		t.Errorf("our signature: %v, %+v", err, ours)
	}
	theirs := gssapi.MICToken{Flags: flags | gssapi.MICTokenFlagSentByAcceptor, Payload: []byte("list")}
	if err := theirs.SetChecksum(want, keyusage.GSSAPI_ACCEPTOR_SIGN); err != nil {
		t.Fatal(err)
	}
	b, _ := theirs.Marshal()
	if err := c.VerifyMIC([]byte("list"), b); err != nil {
		t.Error(err)
	}
	if err := c.VerifyMIC([]byte("lost"), b); !errors.Is(err, ErrServer) {
		t.Errorf("signature of something else: %v", err)
	}
	if err := c.VerifyMIC([]byte("list"), mic); !errors.Is(err, ErrServer) {
		t.Errorf("our own signature reflected: %v", err)
	}
	if _, err := c.Step(t.Context(), nil); !errors.Is(err, ErrServer) {
		t.Errorf("third step: %v", err)
	}
}

func TestServerRefused(t *testing.T) {
	k := kdc.Start(t)
	keys := service(t, k)
	k.AddUser(t, "alice")
	cfg := Config{User: "alice", Password: kdc.Password, ConfigFile: k.KRB5Conf}
	for name, spoil := range map[string]func(*messages.EncAPRepPart){
		"another clock":       func(p *messages.EncAPRepPart) { p.Cusec++ },
		"short subkey":        func(p *messages.EncAPRepPart) { p.Subkey.KeyValue = p.Subkey.KeyValue[:5] },
		"unknown kind of key": func(p *messages.EncAPRepPart) { p.Subkey.KeyType = 99 },
	} {
		c, err := begin(t, cfg)
		if err != nil {
			t.Fatal(err)
		}
		token, err := c.Step(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Step(t.Context(), (&acceptor{keys: keys, spoil: spoil}).accept(t, token)); !errors.Is(err, ErrServer) || c.Done() {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNoTicket(t *testing.T) {
	k := kdc.Start(t)
	k.AddUser(t, "alice")
	_, err := begin(t, Config{User: "alice", Password: "wrong", ConfigFile: k.KRB5Conf})
	if !errors.Is(err, ErrTicket) {
		t.Errorf("wrong password: %v", err)
	}
	_, err = begin(t, Config{User: "alice", Password: kdc.Password, ConfigFile: k.KRB5Conf})
	if !errors.Is(err, ErrTicket) {
		t.Errorf("unknown service: %v", err)
	}
	i, err := New(Config{User: "alice", Password: kdc.Password, ConfigFile: k.KRB5Conf})
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := i.Start(ctx, "files.tarn.test"); err == nil {
		t.Error("a cancelled context got a ticket")
	}
	i.Close()
	if _, err := i.Start(t.Context(), "files.tarn.test"); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestBadConfig(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "krb5.conf")
	if err := os.WriteFile(conf, []byte("[libdefaults]\n  default_realm = X\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]Config{
		"nothing":             {ConfigFile: conf},
		"no proof":            {User: "a", Realm: "B", ConfigFile: conf},
		"no such keytab":      {User: "a", Realm: "B", Keytab: conf + ".none", ConfigFile: conf},
		"no such cache":       {CCache: conf + ".none", ConfigFile: conf},
		"no such krb5.conf":   {User: "a", Realm: "B", Password: "c", ConfigFile: conf + ".none"},
		"a keytab of no kind": {User: "a", Realm: "B", Keytab: conf, ConfigFile: conf},
	} {
		if _, err := New(cfg); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzReply runs the decoder of the server's token on any input: it returns an error or succeeds.
func FuzzReply(f *testing.F) {
	key := types.EncryptionKey{KeyType: 18, KeyValue: make([]byte, 32)}
	auth, err := types.NewAuthenticator(kdc.Realm, types.NewPrincipalName(1, "alice"))
	if err != nil {
		f.Fatal(err)
	}
	good := makeReply(f, messages.EncAPRepPart{CTime: auth.CTime, Cusec: auth.Cusec}, key)
	f.Add(good)
	f.Add(good[:len(good)/2])
	short, _ := marshalTagged(messages.APRep{PVNO: 5, MsgType: msgtype.KRB_AP_REP,
		EncPart: types.EncryptedData{EType: 18, Cipher: []byte("x")}}, asnAppTag.APREP)
	token, _ := frame(tokenReply, short)
	f.Add(token)
	f.Fuzz(func(t *testing.T, in []byte) {
		c := &securityContext{key: key, auth: auth, state: stateWaiting}
		if _, err := c.Step(context.Background(), in); err != nil && !errors.Is(err, ErrServer) {
			t.Error(err)
		}
	})
}
