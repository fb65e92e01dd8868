package smb2

import (
	"context"
	"encoding/asn1"
	"errors"

	"github.com/tarn-go/tarn/smb"
)

// Initiator is the client's side of an authentication (RFC 2743). One that also implements smb.Initiator is
// used through that interface.
type Initiator interface {
	OID() asn1.ObjectIdentifier
	InitSecContext() ([]byte, error)            // GSS_Init_sec_context
	AcceptSecContext(sc []byte) ([]byte, error) // GSS_Accept_sec_context
	Sum(bs []byte) []byte                       // GSS_getMIC
	SessionKey() []byte                         // QueryContextAttributes(ctx, SECPKG_ATTR_SESSION_KEY, &out)
}

// NTLMInitiator logs in with NTLMv2 (MS-NLMP): with a Password, or with the 16-byte NT hash of one. NTLMv1 is
// never used.
type NTLMInitiator struct {
	User        string
	Password    string
	Hash        []byte
	Domain      string
	Workstation string
	TargetSPN   string // "": "cifs/" and the server's name

	running smb.SecurityContext
}

var (
	_ Initiator     = (*NTLMInitiator)(nil)
	_ smb.Initiator = (*NTLMInitiator)(nil)
)

var oidNTLM = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 311, 2, 2, 10}

var errSequence = errors.New("smb2: InitSecContext comes first")

// Start implements smb.Initiator. Unlike the other methods, it does not change i.
func (i *NTLMInitiator) Start(ctx context.Context, host string) (smb.SecurityContext, error) {
	return smb.NTLM{
		User: i.User, Password: i.Password, Hash: i.Hash, Domain: i.Domain,
		Workstation: i.Workstation, Target: i.TargetSPN,
	}.Start(ctx, host)
}

// OID is NTLM's object identifier.
func (i *NTLMInitiator) OID() asn1.ObjectIdentifier { return oidNTLM }

// InitSecContext begins an authentication and returns its first message.
func (i *NTLMInitiator) InitSecContext() ([]byte, error) {
	c, err := i.Start(context.Background(), "")
	if err != nil {
		return nil, err
	}
	i.running = c
	return c.Step(context.Background(), nil)
}

// AcceptSecContext answers the server's challenge.
func (i *NTLMInitiator) AcceptSecContext(sc []byte) ([]byte, error) {
	if i.running == nil {
		return nil, errSequence
	}
	return i.running.Step(context.Background(), sc)
}

// Sum is the integrity code of bs, nil before the challenge is answered.
func (i *NTLMInitiator) Sum(bs []byte) []byte {
	if i.running == nil {
		return nil
	}
	mic, err := i.running.MIC(bs)
	if err != nil {
		return nil
	}
	return mic
}

// SessionKey is the session key, 16 bytes; nil before the challenge is answered.
func (i *NTLMInitiator) SessionKey() []byte {
	if i.running == nil {
		return nil
	}
	return i.running.SessionKey()
}

// authenticator converts i for package smb.
func authenticator(i Initiator) smb.Initiator {
	if s, ok := i.(smb.Initiator); ok {
		return s
	}
	return foreign{i}
}

// foreign is a mechanism that the program implements.
type foreign struct{ i Initiator }

func (f foreign) Start(context.Context, string) (smb.SecurityContext, error) {
	return &exchange{i: f.i, oid: f.i.OID().String()}, nil
}

// exchange is one authentication by a mechanism that the program implements. go-smb2's interface does not say
// when it is complete: it is taken to be complete after the server's first message, as for NTLM and Kerberos.
type exchange struct {
	i        Initiator
	oid      string
	begun    bool
	answered bool
}

func (e *exchange) OID() string { return e.oid }

func (e *exchange) Step(_ context.Context, in []byte) ([]byte, error) {
	if !e.begun {
		e.begun = true
		return e.i.InitSecContext()
	}
	out, err := e.i.AcceptSecContext(in)
	e.answered = e.answered || err == nil
	return out, err
}

func (e *exchange) Done() bool { return e.answered }

func (e *exchange) SessionKey() []byte { return e.i.SessionKey() }

func (e *exchange) MIC(data []byte) ([]byte, error) { return e.i.Sum(data), nil }

// VerifyMIC accepts every code: go-smb2's interface has no method to check one. The server
// still proves that it has the key, by its signature on the last SESSION_SETUP reply.
func (e *exchange) VerifyMIC(_, _ []byte) error { return nil }
