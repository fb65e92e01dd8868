package smb2

import (
	"context"
	"encoding/asn1"
	"errors"

	"github.com/jcmturner/gokrb5/v8/client"

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/krb5"
)

// Krb5Initiator logs in with Kerberos, with the credentials of a gokrb5 client, which it
// borrows.
type Krb5Initiator struct {
	Client    *client.Client
	TargetSPN string // "cifs/server"; required

	running smb.SecurityContext
}

var (
	_ Initiator     = (*Krb5Initiator)(nil)
	_ smb.Initiator = (*Krb5Initiator)(nil)

	oidKerberos = asn1.ObjectIdentifier{1, 2, 840, 113554, 1, 2, 2}

	errClient   = errors.New("smb2: Krb5Initiator has no Client")
	errTarget   = errors.New("smb2: Krb5Initiator has no TargetSPN")
	errSequence = errors.New("smb2: InitSecContext comes first")
)

// Start implements smb.Initiator. Unlike the other methods, it does not change ki.
func (ki *Krb5Initiator) Start(ctx context.Context, host string) (smb.SecurityContext, error) {
	switch {
	case ki.Client == nil:
		return nil, errClient
	case ki.TargetSPN == "":
		return nil, errTarget
	}
	return krb5.FromClient(ki.Client, ki.TargetSPN).Start(ctx, host)
}

// OID is Kerberos' object identifier.
func (ki *Krb5Initiator) OID() asn1.ObjectIdentifier { return oidKerberos }

// InitSecContext gets a ticket for the server and returns the first message.
func (ki *Krb5Initiator) InitSecContext() ([]byte, error) {
	c, err := ki.Start(context.Background(), "")
	if err != nil {
		return nil, err
	}
	ki.running = c
	return c.Step(context.Background(), nil)
}

// AcceptSecContext checks the server's answer.
func (ki *Krb5Initiator) AcceptSecContext(sc []byte) ([]byte, error) {
	if ki.running == nil {
		return nil, errSequence
	}
	return ki.running.Step(context.Background(), sc)
}

// Sum is the integrity code of bs, nil before the server has answered.
func (ki *Krb5Initiator) Sum(bs []byte) []byte {
	if ki.running == nil {
		return nil
	}
	mic, err := ki.running.MIC(bs)
	if err != nil {
		return nil
	}
	return mic
}

// SessionKey is the first 16 bytes of the session key, nil before the server has answered.
func (ki *Krb5Initiator) SessionKey() []byte {
	if ki.running == nil {
		return nil
	}
	key := ki.running.SessionKey()
	return key[:min(16, len(key))]
}
