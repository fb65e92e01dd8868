package migrate

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"
)

// TestProgress: a run says every five seconds what it does, on a terminal alone.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		stop := every(quiet, &out, "compiling")
		<-time.After(11 * time.Second)
		stop()
		if out.String() != "tarn migrate: 5s: compiling\ntarn migrate: 10s: compiling\n" {
			t.Errorf("%q", &out)
		}
		out.Reset()
		stop = watch(&out, "compiling")
		<-time.After(11 * time.Second)
		stop()
		if out.Len() > 0 {
			t.Errorf("on no terminal: %q", &out)
		}
	})
}
