package crypt

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func same(t *testing.T, what string, got []byte, want string) {
	t.Helper()
	if !bytes.Equal(got, unhex(t, want)) {
		t.Errorf("%s = %x, want %s", what, got, want)
	}
}

// The examples Microsoft published beside MS-SMB2 for 3.0 and 3.1.1.
func TestDeriveKeys(t *testing.T) {
	k := DeriveKeys(proto.Dialect300, proto.CipherAES128CCM, unhex(t, "7CD451825D0450D235424E44BA6E78CC"), nil)
	same(t, "3.0 signing", k.Signing, "0B7E9C5CAC36C0F6EA9AB275298CEDCE")
	same(t, "3.0 encryption", k.Encrypt, "FAD27796665B313EBB578F388632B4F7")
	same(t, "3.0 decryption", k.Decrypt, "B0F0427F7CEB416D1D9DCC0CD4F99447")
	same(t, "3.0 application", k.Application, "BB23A4575AA26C721AF525AF15A87B4F")

	preauth := Preauth(unhex(t, `0DD13628CC3ED218EF9DF9772D436D0887AB9814BFAE63A80AA845F36909DB79
		28622DDDAD522D9751640A459762C5A9D6BB084CBB3CE6BDADEF5D5BCE3C6C01`))
	k = DeriveKeys(proto.Dialect311, proto.CipherAES128GCM, unhex(t, "270E1BA896585EEB7AF3472D3B4C75A7"), &preauth)
	same(t, "3.1.1 signing", k.Signing, "73FE7A9A77BEF0BDE49C650D8CCB5F76")
	same(t, "3.1.1 encryption", k.Encrypt, "629BCBC54422A0F572B97F45989B6073")
	same(t, "3.1.1 decryption", k.Decrypt, "E2AF0DCEFAC68DA71A0DFBD0D1350D74")
	same(t, "3.1.1 application", k.Application, "6D7AD7954E9EC61E907B4D473DC178FF")
}

func TestDeriveKeysSizes(t *testing.T) {
	var preauth Preauth
	long := bytes.Repeat([]byte{7}, 32)
	k := DeriveKeys(proto.Dialect311, proto.CipherAES256GCM, long, &preauth)
	if len(k.Encrypt) != 32 || len(k.Decrypt) != 32 || len(k.Signing) != 16 {
		t.Errorf("AES-256 keys of %d, %d, %d bytes", len(k.Encrypt), len(k.Decrypt), len(k.Signing))
	}
	if s := DeriveKeys(proto.Dialect311, proto.CipherAES128GCM, long, &preauth); !bytes.Equal(s.Signing, k.Signing) {
		t.Error("the signing key depends on the cipher")
	}
	k = DeriveKeys(proto.Dialect210, proto.CipherNone, []byte("short"), nil)
	if !bytes.Equal(k.Signing, []byte("short\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")) || k.Encrypt != nil {
		t.Errorf("2.1 keys: %+v", k)
	}
}

func TestPreauthPieces(t *testing.T) {
	var a, b Preauth
	a.Update([]byte("first message"))
	a.Update([]byte("second"))
	b.Update([]byte("first "), []byte("message"))
	fork := b
	b.Update([]byte("sec"), nil, []byte("ond"))
	if a != b {
		t.Error("pieces of a message give another hash than the whole")
	}
	if fork == b {
		t.Error("a copy of the chain moved with it")
	}
}
