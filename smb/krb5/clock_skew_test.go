package krb5

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jcmturner/gokrb5/v8/iana/errorcode"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/tarn-go/tarn/internal/rig/kdc"
)

func kerberosError(t *testing.T, code int32) []byte {
	t.Helper()
	e := messages.NewKRBError(types.NewPrincipalName(1, "cifs/files.tarn.test"), kdc.Realm, code, "")
	b, err := e.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestClockSkew(t *testing.T) {
	k := kdc.Start(t)
	keys := service(t, k)
	k.AddUser(t, "alice")
	check := func(name string, err, class error, want bool) {
		t.Helper()
		if !errors.Is(err, class) || errors.Is(err, ErrClockSkew) != want {
			t.Errorf("%s: %v", name, err)
		}
	}

	for code, skew := range map[int32]bool{errorcode.KRB_AP_ERR_SKEW: true, errorcode.KRB_AP_ERR_TKT_NYV: true, errorcode.KRB_AP_ERR_MODIFIED: false} {
		c, err := begin(t, Config{User: "alice", Password: kdc.Password, ConfigFile: k.KRB5Conf})
		if err != nil {
			t.Fatal(err)
		}
		token, err := c.Step(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		(&acceptor{keys: keys}).accept(t, token)
		answer, err := frame(tokenError, kerberosError(t, code))
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Step(t.Context(), answer)
		check(fmt.Sprintf("the server's error %d", code), err, ErrServer, skew)
	}

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	refusal := kerberosError(t, errorcode.KRB_AP_ERR_SKEW)
	go func() {
		for nc, err := l.Accept(); err == nil; nc, err = l.Accept() {
			head := make([]byte, 4)
			if _, err := io.ReadFull(nc, head); err == nil {
				io.CopyN(io.Discard, nc, int64(binary.BigEndian.Uint32(head)))
				nc.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(refusal))), refusal...))
			}
			nc.Close()
		}
	}()
	conf := filepath.Join(t.TempDir(), "krb5.conf")
	if err := os.WriteFile(conf, []byte(kdc.ClientConf(kdc.Realm, l.Addr().(*net.TCPAddr).Port)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = begin(t, Config{User: "alice", Password: kdc.Password, ConfigFile: conf})
	check("the KDC's error", err, ErrTicket, true)

	b, err := os.ReadFile(k.KRB5Conf)
	if err != nil {
		t.Fatal(err)
	}
	strict := strings.Replace(string(b), "[libdefaults]\n", "[libdefaults]\n  clockskew = 0\n", 1)
	if err := os.WriteFile(conf, []byte(strict), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = begin(t, Config{User: "alice", Password: kdc.Password, ConfigFile: conf})
	check("the time in the KDC's reply", err, ErrTicket, true)
	_, err = begin(t, Config{User: "alice", Password: "wrong", ConfigFile: k.KRB5Conf})
	check("a wrong password", err, ErrTicket, false)
}
