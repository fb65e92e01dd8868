package h2http

import (
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/summerwind/h2spec/config"
	"github.com/summerwind/h2spec/generic"
	"github.com/summerwind/h2spec/hpack"
	"github.com/summerwind/h2spec/http2"
	"github.com/summerwind/h2spec/spec"
)

// exceptions are the cases that a server which offers frames of 1 MiB cannot pass, with the reason. With frames of 16 KiB
// there are none.
var exceptions = map[string]string{
	"http2/4.2: Sends a DATA frame with 2^14 octets in length": "the case sends one frame of the size offered, " +
		"1 MiB, whatever the stream's window of 256 KiB: the stream is reset with FLOW_CONTROL_ERROR",
	"http2/4.2: Sends a large size HEADERS frame that exceeds the SETTINGS_MAX_FRAME_SIZE": "the case takes 20 kB " +
		"of header for more than a frame holds, which it is not when frames of 1 MiB are offered",
}

func TestH2Spec(t *testing.T) {
	eachWay(t, func(t *testing.T, s security) {
		t.Run("default", func(t *testing.T) { suite(t, handlerServer(t, s, 0), s, exceptions) })
		t.Run("small frames", func(t *testing.T) { suite(t, handlerServer(t, s, 16384), s, nil) })
	})
}

// handlerServer runs a server that offers frames of this size, 0: the default, and returns its port.
func handlerServer(t *testing.T, s security, frame int) int {
	url := serve(t, s, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, "hello")
	}), func(srv *http.Server) {
		srv.HTTP2 = &http.HTTP2Config{MaxReadFrameSize: frame}
		// Without HTTP/1.1 a bad preface is an error of HTTP/2, and not a request that is answered with 400.
		srv.Protocols = new(http.Protocols)
		srv.Protocols.SetHTTP2(s != plain)
		srv.Protocols.SetUnencryptedHTTP2(s == plain)
	})
	_, port, _ := net.SplitHostPort(url[strings.Index(url, "//")+2:])
	n, _ := strconv.Atoi(port)
	return n
}

// suite runs h2spec with its strict cases against the server on a port.
func suite(t *testing.T, port int, s security, except map[string]string) {
	c := &config.Config{Host: "127.0.0.1", Port: port, Path: "/", Timeout: 2 * time.Second, MaxHeaderLen: 4000, Strict: true, TLS: s != plain, Insecure: true}
	passed, failed := 0, 0
	for _, g := range []*spec.TestGroup{generic.Spec(), http2.Spec(), hpack.Spec()} {
		g.Test(c)
		passed += g.PassedCount
		failed += g.FailedCount + g.SkippedCount
		report(t, g, except)
	}
	t.Logf("%d cases passed, %d did not", passed, failed)
	if failed != len(except) || passed+failed != 146 {
		t.Errorf("%d cases passed and %d did not; expected are %d of 146", passed, failed, 146-len(except))
	}
}

// report fails the test for the cases that did not pass.
func report(t *testing.T, g *spec.TestGroup, except map[string]string) {
	t.Helper()
	for _, c := range append(append([]*spec.TestCase(nil), g.Tests...), g.StrictTests...) {
		if c.Result == nil || !c.Result.Failed && !c.Result.Skipped {
			continue
		}
		name := g.ID() + ": " + c.Desc
		if why, ok := except[name]; ok {
			t.Logf("%s: %s", name, why)
		} else {
			t.Errorf("%s: failed=%v skipped=%v\n%v", name, c.Result.Failed, c.Result.Skipped, c.Result.Error)
		}
	}
	for _, sub := range g.Groups {
		report(t, sub, except)
	}
}
