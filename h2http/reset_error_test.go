package h2http_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn/h2"
)

// resetText is what programs find out about a reset from net/http's error: its text, and x/net's StreamError.
func resetText(err error) string {
	var se http2.StreamError
	if !errors.As(err, &se) {
		return fmt.Sprintf("%v, which is no http2.StreamError", err)
	}
	return fmt.Sprintf("%v: stream %d, %v, %v", err, se.StreamID, se.Code, se.Cause)
}

// TestResetErrorsOfClients: errors of requests that the server resets read as net/http's do, from which connect-go takes
// their code, and are *h2.StreamError, too.
func TestResetErrorsOfClients(t *testing.T) {
	codes := []http2.ErrCode{http2.ErrCodeInternal, http2.ErrCodeCancel, http2.ErrCodeEnhanceYourCalm, http2.ErrCodeHTTP11Required, 0xbeef, 1<<32 - 1}
	for _, after := range []string{"request", "header"} {
		t.Run("after the "+after, func(t *testing.T) {
			want := make(map[http2.ErrCode]string)
			eachClient(t, func(t *testing.T, s clientStack) {
				for _, code := range codes {
					url, _ := scripted(t, s.tls, func(int) *script {
						return &script{end: func(s *script, id uint32) {
							if after == "header" {
								s.do(func() {
									s.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte{0x88}, EndHeaders: true}) // :status 200
								})
							}
							s.do(func() { s.fr.WriteRSTStream(id, code) })
						}}
					})
					req, _ := http.NewRequest("GET", url, nil)
					resp, err := s.make(t, new(clientSetup)).RoundTrip(req)
					if err == nil {
						_, err = io.ReadAll(resp.Body)
						resp.Body.Close()
					}
					got := resetText(err)
					if want[code] == "" {
						want[code] = got
					}
					if got != want[code] {
						t.Errorf("%s, not %s", got, want[code])
					}
					var se *h2.StreamError
					if s.own && (!errors.As(err, &se) || se.Code != h2.Code(code) || se.Fault != h2.Told) {
						t.Errorf("as *h2.StreamError: %v", se)
					}
				}
			})
		})
	}
}

// TestResetErrorsOfServers is the same for a handler that reads a request which the client resets.
func TestResetErrorsOfServers(t *testing.T) {
	want := ""
	each(t, func(t *testing.T, s stack) {
		inside, ended := make(chan struct{}), make(chan error, 1)
		r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(inside)
			_, err := io.Copy(io.Discard, r.Body)
			ended <- err
		}))
		p := r.dialPeer(t)
		p.request(1, more, "POST", "/")
		<-inside
		p.reset(1, http2.ErrCodeCancel)
		got := resetText(<-ended)
		if want == "" {
			want = got
		}
		if got != want {
			t.Errorf("%s, not %s", got, want)
		}
	})
}

// TestWriteThatIsReset: a Write that ends with its stream reports no more than the stream's window let through.
func TestWriteThatIsReset(t *testing.T) {
	for _, s := range stacks {
		if !s.own {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			wrote := make(chan int, 1)
			p := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.(http.Flusher).Flush()
				n, err := io.WriteString(w, text(1<<20))
				if err == nil {
					n = -1
				}
				wrote <- n
			})).dialPeer(t)
			p.request(1, end, "GET", "/")
			p.wait(1, 2) // the header, and content
			p.reset(1, http2.ErrCodeCancel)
			if n := <-wrote; n < 0 || n > 65535 {
				t.Errorf("Write of 1 MiB into a window of 65,535 bytes returned %d", n)
			}
		})
	}
}
