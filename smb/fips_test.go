package smb_test

import (
	"context"
	"crypto/fips140"
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// TestNTLMUnderFIPS: a program that enforces FIPS 140-3 gets an error from Dial, not a panic of crypto/md5.
func TestNTLMUnderFIPS(t *testing.T) {
	if !fips140.Enforced() {
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		again := exec.Command(exe, "-test.run=^TestNTLMUnderFIPS$", "-test.v")
		again.Env = append(os.Environ(), "GODEBUG=fips140=only")
		if out, err := again.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	server := &script.Server{Size: 1000}
	for _, user := range []string{"alice", ""} {
		d := smb.Dialer{Initiator: smb.NTLM{User: user, Password: "secret"}, DialFunc: server.Dial}
		if _, err := d.Dial(context.Background(), "server"); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("user %q: %v", user, err)
		}
	}
}
