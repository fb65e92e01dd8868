package h2http_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/h2http"
)

// TestClientTimeoutIsNamed: the error of http.Client names its Timeout, although the request's context, which has
// the same deadline, ends first.
func TestClientTimeoutIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent, nc := net.Pipe()
		go io.Copy(io.Discard, silent)
		rt := &h2http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nc, nil }}
		c := &http.Client{Transport: rt, Timeout: time.Second}
		resp, err := c.Get("http://silent/")
		if err == nil {
			resp.Body.Close()
			t.Fatal("an answer")
		}
		if !isTimeout(err) || !strings.Contains(err.Error(), "(Client.Timeout exceeded") {
			t.Error(err)
		}
		rt.CloseIdleConnections()
		silent.Close()
		synctest.Wait()
	})
}

// TestCancelAtTheDeadline: if a request's Cancel channel is closed at the time of its context's deadline, as by http.Client for its
// Timeout, the error is that of the deadline, whichever the client notices first.
func TestCancelAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent, nc := net.Pipe()
		go io.Copy(io.Discard, silent)
		rt := &h2http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nc, nil }}
		canceled := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(canceled) }) // before the context's timer
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, "GET", "http://silent/", nil)
		//lint:ignore SA1019 http.Client sets it
		req.Cancel = canceled
		resp, err := rt.RoundTrip(req)
		if err == nil {
			resp.Body.Close()
		}
		if err != context.DeadlineExceeded {
			t.Error(err)
		}
		rt.CloseIdleConnections()
		silent.Close()
		synctest.Wait()
	})
}

// TestDeadlineBeforeClientTimeout: the deadline of the request's context is not taken for a Timeout that is later.
func TestDeadlineBeforeClientTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent, nc := net.Pipe()
		go io.Copy(io.Discard, silent)
		rt := &h2http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nc, nil }}
		c := &http.Client{Transport: rt, Timeout: time.Minute}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, "GET", "http://silent/", nil)
		start := time.Now()
		resp, err := c.Do(req)
		if err == nil {
			resp.Body.Close()
			t.Fatal("an answer")
		}
		if !isTimeout(err) || strings.Contains(err.Error(), "Client.Timeout") {
			t.Error(err)
		}
		if d := time.Since(start); d > time.Second+10*time.Millisecond {
			t.Errorf("after %v", d)
		}
		rt.CloseIdleConnections()
		silent.Close()
		synctest.Wait()
	})
}

// TestCancelAfterPanic: a request with a Cancel channel that panics, in a hook here, leaves no goroutine that waits for
// the channel.
func TestCancelAfterPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuse := func(context.Context, string, string) (net.Conn, error) { return nil, io.EOF }
		hooks := &httptrace.ClientTrace{GetConn: func(string) { panic("the hook") }}
		req, _ := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), hooks), "GET", "http://refused/", nil)
		//lint:ignore SA1019 http.Client sets it
		req.Cancel = make(chan struct{})
		defer func() {
			if v := recover(); v != "the hook" {
				t.Errorf("recovered from %v", v)
			}
		}()
		(&h2http.Transport{DialContext: refuse}).RoundTrip(req)
	})
}

// TestDialsAreShared: requests for one host that come at once wait for one dial, and share its end.
func TestDialsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int32
		refused := make(chan error)
		rt := &h2http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			dials.Add(1)
			return nil, <-refused
		}}
		failed := make(chan error, 20)
		for range cap(failed) {
			go func() {
				req, _ := http.NewRequest("GET", "http://refused/", nil)
				resp, err := rt.RoundTrip(req)
				if err == nil {
					resp.Body.Close()
				}
				failed <- err
			}()
		}
		synctest.Wait() // all of them are waiting
		refused <- io.ErrClosedPipe
		for range cap(failed) {
			if err := <-failed; err != io.ErrClosedPipe {
				t.Error(err)
			}
		}
		if n := dials.Load(); n != 1 {
			t.Errorf("%d dials", n)
		}
	})
}

// TestEndedContextSendsNothing: a request whose context has ended is not sent on a connection in use, and its error is the context's
// cause. net/http's HTTP/2 over TLS sends some.
func TestEndedContextSendsNothing(t *testing.T) {
	check := func(t *testing.T, rt http.RoundTripper, url string, served *atomic.Int32) {
		t.Helper()
		do := func(ctx context.Context, body io.Reader) error {
			req, err := http.NewRequestWithContext(ctx, "POST", url, body)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := rt.RoundTrip(req)
			if err == nil {
				resp.Body.Close()
			}
			return err
		}
		if err := do(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
		cause := errors.New("the cause")
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(cause)
		for range 20 {
			body := &closes{Reader: strings.NewReader("content")}
			if err := do(ctx, body); err != cause {
				t.Errorf("the error is %v", err)
			}
			if body.n.Load() != 1 {
				t.Errorf("the body was closed %d times", body.n.Load())
			}
		}
		if err := do(context.Background(), nil); err != nil { // after which any of those would have been served
			t.Fatal(err)
		}
		if n := served.Load(); n != 2 {
			t.Errorf("%d requests were served, not 2", n)
		}
	}
	eachClient(t, func(t *testing.T, s clientStack) {
		if !s.own && s.tls {
			t.Skip("net/http sends some")
		}
		var served atomic.Int32
		o := startOrigin(t, s.tls, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) }))
		check(t, s.make(t, new(clientSetup)), o.url, &served)
	})
}

// closes counts how often a body is closed.
type closes struct {
	io.Reader
	n atomic.Int32
}

func (c *closes) Close() error {
	c.n.Add(1)
	return nil
}
