package h2http

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	coder "github.com/coder/websocket"
	"github.com/gorilla/websocket"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/internal/browser"
)

// The WebSocket libraries of Go know HTTP/1.1's Upgrade only. With the adapters of this file they use
// extended CONNECT (RFC 8441), over which the frames of a WebSocket are the same.

// upgrading is a handler whose extended CONNECT requests look to h as HTTP/1.1's Upgrade.
func upgrading(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Header.Get(":protocol") != "websocket" {
			h.ServeHTTP(w, r)
			return
		}
		body := r.Body
		r = r.Clone(r.Context())
		r.Method = http.MethodGet
		r.Body = http.NoBody
		r.Header.Del(":protocol")
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "websocket")
		r.Header.Set("Sec-Websocket-Key", base64.StdEncoding.EncodeToString(make([]byte, 16))) // RFC 8441 has none
		h.ServeHTTP(&upgrade{ResponseWriter: w, body: body}, r)
	})
}

// upgrade is the ResponseWriter of a request that looks like an Upgrade.
type upgrade struct {
	http.ResponseWriter
	body io.Reader
	sent bool // the header
}

// accept sends 200, with what header has beside HTTP/1.1's own fields.
func (u *upgrade) accept(header http.Header) error {
	u.sent = true
	for name, values := range header {
		switch name {
		case "Connection", "Upgrade", "Sec-Websocket-Accept":
			u.Header().Del(name)
		default:
			u.Header()[name] = values
		}
	}
	u.ResponseWriter.WriteHeader(http.StatusOK)
	return http.NewResponseController(u.ResponseWriter).Flush()
}

// WriteHeader sends 200 for coder's 101.
func (u *upgrade) WriteHeader(status int) {
	if status != http.StatusSwitchingProtocols {
		u.ResponseWriter.WriteHeader(status)
		return
	}
	u.accept(u.Header())
}

// Hijack returns the stream as a connection.
func (u *upgrade) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c := &streamConn{u}
	return c, bufio.NewReadWriter(bufio.NewReader(c), bufio.NewWriter(c)), nil
}

// streamConn is a stream as a connection. gorilla writes its response to it.
type streamConn struct{ *upgrade }

func (c *streamConn) Read(p []byte) (int, error) { return c.body.Read(p) }

func (c *streamConn) Write(p []byte) (int, error) {
	if !c.sent {
		resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(p)), nil)
		if err != nil {
			return 0, err
		}
		return len(p), c.accept(resp.Header)
	}
	n, err := c.ResponseWriter.Write(p)
	if err == nil {
		err = http.NewResponseController(c.ResponseWriter).Flush()
	}
	return n, err
}

func (c *streamConn) Close() error         { return nil } // the stream ends with the handler
func (c *streamConn) LocalAddr() net.Addr  { return &net.TCPAddr{} }
func (c *streamConn) RemoteAddr() net.Addr { return &net.TCPAddr{} }

func (c *streamConn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

func (c *streamConn) SetReadDeadline(t time.Time) error {
	return http.NewResponseController(c.ResponseWriter).SetReadDeadline(t)
}

func (c *streamConn) SetWriteDeadline(t time.Time) error {
	return http.NewResponseController(c.ResponseWriter).SetWriteDeadline(t)
}

// connecting is a RoundTripper that sends HTTP/1.1's Upgrade as extended CONNECT.
type connecting struct{ *h2http.Transport }

func (c connecting) RoundTrip(r *http.Request) (*http.Response, error) {
	key := r.Header.Get("Sec-Websocket-Key")
	pr, pw := io.Pipe()
	r = r.Clone(r.Context())
	r.Method, r.Body = http.MethodConnect, pr
	for _, name := range []string{"Connection", "Upgrade", "Sec-Websocket-Key"} {
		r.Header.Del(name)
	}
	r.Header.Set(":protocol", "websocket")
	resp, err := c.Transport.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusOK {
		pw.Close()
		return resp, err
	}
	accept := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	resp.StatusCode = http.StatusSwitchingProtocols
	resp.Header.Set("Connection", "Upgrade")
	resp.Header.Set("Upgrade", "websocket")
	resp.Header.Set("Sec-Websocket-Accept", base64.StdEncoding.EncodeToString(accept[:]))
	resp.Body = &duplex{resp.Body, pw}
	return resp, nil
}

type duplex struct {
	io.ReadCloser
	out *io.PipeWriter
}

func (d *duplex) Write(p []byte) (int, error) { return d.out.Write(p) }

func (d *duplex) Close() error {
	d.out.Close()
	return d.ReadCloser.Close()
}

// echoes are WebSockets of both libraries that return the messages they receive, until the client closes them.
func echoes(t *testing.T, ended chan<- string) http.Handler {
	mux := http.NewServeMux()
	over := func(name string, h http.HandlerFunc) {
		mux.Handle("/"+name, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor != 2 {
				t.Errorf("%s over %s", name, r.Proto)
			}
			h(w, r)
			ended <- name
		}))
	}
	over("gorilla", func(w http.ResponseWriter, r *http.Request) {
		c, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		for {
			kind, p, err := c.ReadMessage()
			if err != nil {
				if !websocket.IsCloseError(err, websocket.CloseNormalClosure, websocket.CloseNoStatusReceived) {
					t.Error(err)
				}
				return
			}
			if err := c.WriteMessage(kind, p); err != nil {
				t.Error(err)
			}
		}
	})
	over("coder", func(w http.ResponseWriter, r *http.Request) {
		c, err := coder.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.CloseNow()
		c.SetReadLimit(1 << 20)
		for {
			kind, p, err := c.Read(r.Context())
			if err != nil {
				if s := coder.CloseStatus(err); s != coder.StatusNormalClosure && s != coder.StatusNoStatusRcvd {
					t.Error(err)
				}
				return
			}
			if err := c.Write(r.Context(), kind, p); err != nil {
				t.Error(err)
			}
		}
	})
	return mux
}

// TestWebSocketLibraries has the WebSockets of two libraries run over extended CONNECT, with coder's client.
func TestWebSocketLibraries(t *testing.T) {
	both(t, func(t *testing.T, s security) {
		ended := make(chan string, 2)
		url := serveWith(t, s, upgrading(echoes(t, ended)), h2http.Config{ExtendedConnect: h2.Permit})
		rt := &h2http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		defer rt.CloseIdleConnections()
		for _, name := range []string{"gorilla", "coder"} {
			t.Run(name, func(t *testing.T) {
				c, _, err := coder.Dial(t.Context(), url+"/"+name, &coder.DialOptions{HTTPClient: &http.Client{Transport: connecting{rt}}})
				if err != nil {
					t.Fatal(err)
				}
				defer c.CloseNow()
				c.SetReadLimit(1 << 20)
				for _, n := range []int{1, 100, 100_000} {
					want := strings.Repeat("x", n)
					if err := c.Write(t.Context(), coder.MessageText, []byte(want)); err != nil {
						t.Fatal(err)
					}
					if kind, p, err := c.Read(t.Context()); kind != coder.MessageText || string(p) != want || err != nil {
						t.Fatalf("%v, %d bytes, %v", kind, len(p), err)
					}
				}
				if err := c.Close(coder.StatusNormalClosure, ""); err != nil {
					t.Error(err)
				}
				if got := <-ended; got != name {
					t.Errorf("%s has ended", got)
				}
			})
		}
	})
}

// TestChromiumWebSocket: a browser opens WebSockets by extended CONNECT on the connection that has loaded its page.
func TestChromiumWebSocket(t *testing.T) {
	chromium := need(t, "chromium")
	const page = `<html><body><script>
let echoed = []
for (const name of ["gorilla", "coder"]) {
	const ws = new WebSocket("wss://" + location.host + "/" + name)
	ws.onopen = () => ws.send("by " + name)
	ws.onmessage = e => { echoed.push(e.data); document.title = echoed.sort().join(", "); ws.close(1000) }
}
</script><img src="/when-ended"></body></html>`
	ended := make(chan string, 2)
	sockets := upgrading(echoes(t, ended))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conns := make(chan string, 8)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { conns <- r.RemoteAddr; fmt.Fprint(w, page) })
	mux.HandleFunc("GET /when-ended", func(w http.ResponseWriter, r *http.Request) { // the page is not complete before
		for range 2 {
			select {
			case <-ended:
			case <-ctx.Done():
			}
		}
	})
	mux.HandleFunc("CONNECT /", func(w http.ResponseWriter, r *http.Request) { conns <- r.RemoteAddr; sockets.ServeHTTP(w, r) })
	url := serveWith(t, overTLS, mux, h2http.Config{ExtendedConnect: h2.Permit})
	profile := t.TempDir()
	temporary, err := browser.TemporaryDir()
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(temporary)
	t.Setenv("TMPDIR", temporary)
	out := run(t, chromium, "--headless", "--no-sandbox", "--disable-gpu", "--ignore-certificate-errors",
		"--disable-background-networking", "--no-first-run", "--user-data-dir="+profile, "--timeout="+fmt.Sprint(30*time.Second.Milliseconds()),
		"--dump-dom", url+"/")
	if !strings.Contains(out, "<title>by coder, by gorilla</title>") {
		t.Errorf("the page: %s", out)
	}
	of := map[string]int{}
	for len(conns) > 0 {
		of[<-conns]++
	}
	if len(of) != 1 {
		t.Errorf("the page and its sockets by connection: %v", of)
	}
}
