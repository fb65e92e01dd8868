package h2http_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/internal/faultnet"
)

// TestTimeoutsOfQuietConnections: timeouts of requests, both sides', and the end of a peer are noticed on connections on which nothing has
// come for so long that they are not read by a goroutine any more.
func TestTimeoutsOfQuietConnections(t *testing.T) {
	faultnet.NeedsTCP(t, "only sockets are watched while nothing comes")
	if testing.Short() {
		t.Skip("a connection becomes quiet after two seconds")
	}
	t.Parallel()
	const late = 3 * time.Second
	for security, overTLS := range map[string]bool{"plain": false, "tls": true} {
		for name, x := range map[string]struct {
			server  *http.Server
			timeout time.Duration // of the client
			handle  func(http.ResponseWriter, *http.Request) error
			want    error // handle's
			client  func(*http.Response, error) error
			expects error // of client
		}{
			"ReadTimeout": {server: &http.Server{ReadTimeout: late}, want: os.ErrDeadlineExceeded,
				handle: func(_ http.ResponseWriter, r *http.Request) error { return discardAll(r.Body) }},
			"WriteTimeout": {server: &http.Server{WriteTimeout: late}, want: os.ErrDeadlineExceeded,
				handle: func(w http.ResponseWriter, r *http.Request) error {
					<-time.After(late + late/10)
					return http.NewResponseController(w).Flush()
				}},
			"client's Timeout": {server: new(http.Server), timeout: late, want: context.Canceled, expects: context.DeadlineExceeded,
				handle: func(_ http.ResponseWriter, r *http.Request) error {
					<-r.Context().Done()
					return r.Context().Err()
				}},
			"a late response": {server: new(http.Server),
				handle: func(w http.ResponseWriter, r *http.Request) error {
					<-time.After(late)
					_, err := io.WriteString(w, strings.Repeat("x", 5<<20))
					return err
				},
				client: func(res *http.Response, err error) error {
					if err != nil {
						return err
					}
					n, err := io.Copy(io.Discard, res.Body)
					if err == nil && n != 5<<20 {
						return io.ErrUnexpectedEOF
					}
					return err
				}},
		} {
			t.Run(security+"/"+name, func(t *testing.T) {
				t.Parallel()
				handled := make(chan error, 1)
				srv := x.server
				srv.Protocols = new(http.Protocols)
				srv.Protocols.SetHTTP2(true)
				srv.Protocols.SetUnencryptedHTTP2(true)
				srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handled <- x.handle(w, r) })
				l := listen(t, overTLS)
				s, err := h2http.NewServer(srv, nil)
				if err != nil {
					t.Fatal(err)
				}
				ended := make(chan struct{})
				go func() { defer close(ended); s.Serve(l) }()
				defer func() { s.Close(); <-ended }()
				tr := &http.Transport{Protocols: srv.Protocols, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
				if err := h2http.ConfigureTransport(tr, nil); err != nil {
					t.Fatal(err)
				}
				defer tr.CloseIdleConnections()
				url := map[bool]string{false: "http://", true: "https://"}[overTLS] + l.Addr().String()
				body, more := io.Pipe()
				defer more.Close()
				res, err := (&http.Client{Transport: tr, Timeout: x.timeout}).Post(url, "", body)
				if res != nil {
					defer res.Body.Close()
				}
				if x.client != nil {
					err = x.client(res, err)
				}
				if x.client != nil || x.expects != nil {
					if !errors.Is(err, x.expects) {
						t.Errorf("the client's error: %v, want %v", err, x.expects)
					}
				}
				if err := <-handled; !errors.Is(err, x.want) {
					t.Errorf("the handler's error: %v, want %v", err, x.want)
				}
			})
		}
	}
}

func discardAll(r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}
