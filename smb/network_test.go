package smb_test

import (
	"testing"

	"github.com/tarn-go/tarn/internal/faultnet"
)

// through is dial, on the network that [faultnet.Variable] names.
func through(t testing.TB, dial faultnet.DialFunc) faultnet.DialFunc {
	t.Helper()
	if !faultnet.Chosen() {
		return dial
	}
	return faultnet.DialerThrough(t, dial)
}

// dialer dials on that network; nil without one, so that the client dials itself.
func dialer(t testing.TB) faultnet.DialFunc {
	t.Helper()
	if !faultnet.Chosen() {
		return nil
	}
	return faultnet.DialThrough(t)
}
