package h1

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/internal/fields"
	"github.com/tarn-go/tarn/internal/preset"
	"github.com/tarn-go/tarn/tarntest"
)

const request = line + host + typed + sized + "\r\n" + body

// rig is a Server and what it hands over.
type rig struct {
	*Server
	t      *testing.T
	handed chan net.Conn
}

func newRig(t *testing.T, h http.HandlerFunc) *rig {
	r := &rig{t: t, handed: make(chan net.Conn, 1)}
	r.Server = New(Config{Handler: h, Known: known, HandOver: func(nc net.Conn) { r.handed <- nc }, Context: t.Context(), Pool: tarntest.NewPool(t),
		ReadTimeout: time.Minute, IdleTimeout: time.Hour})
	return r
}

// dial returns a connection to the server, and a channel that is closed when the server's goroutine has ended.
func (r *rig) dial() (net.Conn, chan struct{}) {
	client, server := net.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Serve(server)
	}()
	r.t.Cleanup(func() { client.Close() })
	return client, ended
}

// send writes text, and fails if the server does not take all of it.
func send(t *testing.T, nc net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(nc, text); err != nil {
		t.Fatal(err)
	}
}

// answer reads a response.
func answer(t *testing.T, br *bufio.Reader) (*http.Response, string) {
	t.Helper()
	res, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(text)
}

// echo answers with the request's body.
func echo(w http.ResponseWriter, r *http.Request) {
	var c tarn.Chain
	defer c.Free()
	if err := w.(interface{ AppendBody(*tarn.Chain) error }).AppendBody(&c); err != io.EOF {
		panic(err)
	}
	preset.Set(w, "Content-Type", fields.Of(w).Get("Content-Type"))
	c.WriteTo(w)
}

// Requests of one connection are answered in order, in however many pieces they come.
func TestRequestsInPieces(t *testing.T) {
	text := strings.Repeat(request, 3) + line + host + typed + "Content-Length: 0\r\n\r\n" + line + host + typed + "Connection: close\r\n" + sized + "\r\n" + body
	for _, piece := range []int{1, 7, 100, len(text)} {
		t.Run(fmt.Sprint(piece), func(t *testing.T) {
			s := newRig(t, echo)
			nc, ended := s.dial()
			go func() {
				for rest := text; rest != ""; {
					n := min(piece, len(rest))
					if _, err := io.WriteString(nc, rest[:n]); err != nil {
						t.Error(err)
						return
					}
					rest = rest[n:]
				}
			}()
			br := bufio.NewReader(nc)
			for i, want := range []string{body, body, body, "", body} {
				res, got := answer(t, br)
				if res.StatusCode != 200 || got != want || res.ContentLength != int64(len(want)) || res.Close != (i == 4) || res.Header.Get("Content-Type") != "application/json" || res.Header.Get("Date") == "" {
					t.Errorf("%d: %v %q", i, res, got)
				}
			}
			if n, err := br.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("after the last response: %d, %v", n, err)
			}
			<-ended
		})
	}
}

// A request that is not ordinary, and all that follows, is handed over to the byte, after others have been answered.
func TestHandOver(t *testing.T) {
	for name, text := range others {
		for _, before := range []int{0, 2} {
			t.Run(fmt.Sprint(name, "/", before), func(t *testing.T) {
				s := newRig(t, echo)
				nc, ended := s.dial()
				br := bufio.NewReader(nc)
				for range before {
					send(t, nc, request)
					answer(t, br)
				}
				go io.WriteString(nc, text)
				other := <-s.handed
				defer other.Close()
				<-ended
				want := text
				if before > 0 { // net/http ignores line breaks after the body of a POST
					want = strings.TrimLeft(text, "\r\n")
				}
				got := make([]byte, len(want))
				if _, err := io.ReadFull(other, got); err != nil || string(got) != want {
					t.Errorf("%q, %v", got, err)
				}
			})
		}
	}
}

// A request that the client cuts off is handed over: net/http answers it.
func TestCutOffRequests(t *testing.T) {
	for _, n := range []int{5, len(line) + 3, len(request) - len(body), len(request) - 1} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s := newRig(t, echo)
			nc, ended := s.dial()
			send(t, nc, request[:n])
			nc.Close()
			other := <-s.handed
			defer other.Close()
			<-ended
			if got, err := io.ReadAll(other); string(got) != request[:n] || err != nil {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// in runs f in a bubble of synctest.
func in(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// A head must have come after ReadTimeout, however it comes; then the connection is closed. So it is if it is idle for IdleTimeout.
func TestTimeouts(t *testing.T) {
	for name, c := range map[string]struct {
		before string // is sent at once
		slow   string // is sent a byte every ten seconds
		want   time.Duration
	}{
		"nothing comes": {"", "", time.Minute},
		"slow head":     {"", request, time.Minute},
		"idle":          {request, "", time.Hour},
		"slow later":    {request, request, 10*time.Second + time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T) {
				s := newRig(t, echo)
				nc, ended := s.dial()
				begun := time.Now()
				if c.before != "" {
					send(t, nc, c.before)
					answer(t, bufio.NewReader(nc))
				}
				wrote := make(chan struct{})
				go func() {
					defer close(wrote)
					for i := range len(c.slow) {
						<-time.After(10 * time.Second)
						if _, err := io.WriteString(nc, c.slow[i:i+1]); err != nil {
							return
						}
					}
				}()
				<-ended
				if took := time.Since(begun); took != c.want && took != c.want+10*time.Second {
					t.Errorf("closed after %v, want %v", took, c.want)
				}
				nc.Close()
				<-wrote
			})
		})
	}
}

// A body that has not come after ReadTimeout is left to net/http, which waits longer.
func TestSlowBody(t *testing.T) {
	in(t, func(t *testing.T) {
		s := newRig(t, echo)
		nc, ended := s.dial()
		send(t, nc, request[:len(request)-1])
		begun := time.Now()
		other := <-s.handed
		<-ended
		if took := time.Since(begun); took != time.Minute {
			t.Errorf("after %v", took)
		}
		go io.WriteString(nc, request[len(request)-1:])
		got := make([]byte, len(request))
		if _, err := io.ReadFull(other, got); err != nil || string(got) != request {
			t.Errorf("%q, %v", got, err)
		}
		other.Close()
	})
}

// A client that closes its connection ends the context of a handler that takes long.
func TestClientLeaves(t *testing.T) {
	in(t, func(t *testing.T) {
		took := make(chan time.Duration, 1)
		s := newRig(t, func(w http.ResponseWriter, r *http.Request) {
			begun := time.Now()
			<-r.Context().Done()
			took <- time.Since(begun)
		})
		nc, ended := s.dial()
		send(t, nc, request)
		nc.Close()
		if d := <-took; d != watchAfter {
			t.Errorf("after %v", d)
		}
		<-ended
	})
}

// What a client sends while a handler takes long is its next request, and does not end the context.
func TestRequestWhileHandlerRuns(t *testing.T) {
	in(t, func(t *testing.T) {
		s := newRig(t, func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
				t.Error("the context has ended")
			case <-time.After(time.Second):
			}
			echo(w, r)
		})
		nc, _ := s.dial()
		br := bufio.NewReader(nc)
		send(t, nc, request)
		for range 3 {
			send(t, nc, request) // taken while the handler runs
			if _, got := answer(t, br); got != body {
				t.Errorf("%q", got)
			}
		}
		answer(t, br)
		begun := time.Now() // no deadline is left from the watching
		<-time.After(30 * time.Minute)
		send(t, nc, request)
		if _, got := answer(t, br); got != body || time.Since(begun) != 30*time.Minute+time.Second {
			t.Errorf("%q after %v", got, time.Since(begun))
		}
		s.Stop()
	})
}

// A client that ends its sending direction gets its response.
func TestHalfClosed(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	s := newRig(t, echo)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if nc, err := lis.Accept(); err == nil {
			s.Serve(nc)
		}
	}()
	nc, err := net.Dial("tcp", lis.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	send(t, nc, request)
	nc.(*net.TCPConn).CloseWrite()
	if _, got := answer(t, bufio.NewReader(nc)); got != body {
		t.Errorf("%q", got)
	}
	<-ended
}

// Drain closes connections that wait, also in the middle of a head, and those with a request after the response, which says so. Stop
// closes all.
func TestDrainAndStop(t *testing.T) {
	for name, c := range map[string]struct {
		sent    string
		end     func(*Server)
		answers bool
	}{
		"drain idle":             {"", (*Server).Drain, false},
		"drain in a head":        {line, (*Server).Drain, false},
		"drain in a call":        {request, (*Server).Drain, true},
		"stop idle":              {"", (*Server).Stop, false},
		"stop in a head":         {line, (*Server).Stop, false},
		"stop in a body":         {request[:len(request)-1], (*Server).Stop, false},
		"stop in a call":         {request, (*Server).Stop, false},
		"drain and stop, a call": {request, func(s *Server) { s.Drain(); s.Stop() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T) {
				s := newRig(t, func(w http.ResponseWriter, r *http.Request) {
					<-time.After(time.Second)
					echo(w, r)
				})
				nc, ended := s.dial()
				send(t, nc, c.sent)
				synctest.Wait()
				c.end(s.Server)
				res, err := http.ReadResponse(bufio.NewReader(nc), nil)
				if c.answers != (err == nil) || err == nil && !res.Close {
					t.Errorf("%v, %v", res, err)
				}
				s.Wait()
				<-ended
				if nc, ended := s.dial(); nc != nil { // a new connection is refused
					<-ended
				}
			})
		})
	}
}

// The body of a request is still served when Drain has been called.
func TestDrainInABody(t *testing.T) {
	in(t, func(t *testing.T) {
		s := newRig(t, echo)
		nc, _ := s.dial()
		send(t, nc, request[:len(request)-1])
		synctest.Wait()
		s.Drain()
		send(t, nc, request[len(request)-1:])
		if res, got := answer(t, bufio.NewReader(nc)); got != body || !res.Close {
			t.Errorf("%v %q", res, got)
		}
		s.Wait()
	})
}

// A handler that does not return normally ends the connection without a response, at once and after it has been watched. Only panics
// other than http.ErrAbortHandler are logged.
func TestHandlersThatDoNotReturn(t *testing.T) {
	var logged bytes.Buffer
	log.SetOutput(&logged)
	defer log.SetOutput(log.Default().Writer())
	for name, end := range map[string]func(){
		"abort":  func() { panic(http.ErrAbortHandler) },
		"panic":  func() { panic("the handler's") },
		"Goexit": runtime.Goexit,
	} {
		for _, after := range []time.Duration{0, time.Second} {
			t.Run(fmt.Sprint(name, "/", after), func(t *testing.T) {
				in(t, func(t *testing.T) {
					logged.Reset()
					s := newRig(t, func(w http.ResponseWriter, r *http.Request) {
						io.WriteString(w, "some")
						<-time.After(after)
						end()
					})
					nc, ended := s.dial()
					send(t, nc, request)
					if n, err := nc.Read(make([]byte, 1)); err != io.EOF {
						t.Errorf("%d bytes, %v", n, err)
					}
					<-ended
					if strings.Contains(logged.String(), "the handler's") != (name == "panic") {
						t.Errorf("logged: %s", logged.String())
					}
				})
			})
		}
	}
}

// Responses are as net/http's, of handlers that set fields in all ways.
func TestResponses(t *testing.T) {
	long := strings.Repeat("0123456789", 3000)
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		again   bool // the connection stays
	}{
		"nothing":      {func(http.ResponseWriter, *http.Request) {}, true},
		"status":       {func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusTeapot) }, true},
		"other status": {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(499) }, true},
		"status twice": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "a/b")
			w.WriteHeader(201)
			w.WriteHeader(202)
		}, true},
		"late field": {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(201); w.Header().Set("X-Late", "1") }, true},
		"presets": {func(w http.ResponseWriter, r *http.Request) {
			preset.Set(w, "X-A", []string{"1"})
			preset.Set(w, "X-A", []string{"2", "3"})
			w.Header().Add("X-B", "4")
			preset.Set(w, "X-C", []string{"5"})
		}, true},
		"line breaks": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-A", " a\r\nX-B: b\n")
			w.Header()["X C"] = []string{"c"}
			w.Header()["X\r\nD"] = []string{"d"}
		}, true},
		"date":  {func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Date", "Fri, 27 Nov 2026 00:00:00 GMT") }, true},
		"close": {func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Connection", "close") }, false},
		"pieces": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "a/b")
			io.WriteString(w, "a")
			io.WriteString(w, long[:1900])
		}, true},
		"declared": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "a/b")
			w.Header().Set("Content-Length", fmt.Sprint(1+len(long)))
			io.WriteString(w, "a")
			io.WriteString(w, long)
		}, true},
		"too short": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "a/b")
			w.Header().Set("Content-Length", "10")
			io.WriteString(w, "a")
		}, false},
		"too long": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "a/b")
			w.Header().Set("Content-Length", "1")
			if _, err := io.WriteString(w, "ab"); !errors.Is(err, http.ErrContentLength) {
				panic(err)
			}
			io.WriteString(w, "a")
		}, false},
		"write timeout": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "a/b")
			http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Hour))
			http.NewResponseController(w).SetReadDeadline(time.Now())
			io.WriteString(w, "a")
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			other := &http.Server{Handler: c.handler}
			defer other.Close()
			one, served := net.Pipe()
			lis := &single{conn: served, closed: make(chan struct{})}
			go other.Serve(lis)
			s := newRig(t, c.handler)
			two, _ := s.dial()
			defer one.Close()
			var seen []string
			for _, nc := range []net.Conn{one, two} {
				br := bufio.NewReader(nc)
				for range 2 {
					go io.WriteString(nc, request)
					res, err := http.ReadResponse(br, nil)
					if err != nil {
						seen = append(seen, "closed")
						continue
					}
					text, err := io.ReadAll(res.Body)
					dates := len(res.Header["Date"])
					res.Header.Del("Date")
					seen = append(seen, fmt.Sprint(res.Status, res.Header, dates, res.ContentLength, res.Close, string(text), err))
				}
			}
			if seen[0] != seen[2] || seen[1] != seen[3] {
				t.Errorf("net/http: %s\n%s\nhere: %s\n%s", seen[0], seen[1], seen[2], seen[3])
			}
			if got := seen[1] != "closed"; got != c.again {
				t.Errorf("a second response: %v", got)
			}
		})
	}
}

// single is a listener of one connection.
type single struct {
	conn   net.Conn
	closed chan struct{}
}

func (s *single) Accept() (net.Conn, error) {
	if nc := s.conn; nc != nil {
		s.conn = nil
		return nc, nil
	}
	<-s.closed
	return nil, net.ErrClosed
}

func (s *single) Close() error   { close(s.closed); return nil }
func (s *single) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// A request whose head is that of the one before, and its response, allocate nothing, and an idle connection has no memory of the pool.
func TestAllocations(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	pool, err := tarn.NewPool(tarn.PoolConfig{})
	if err != nil {
		t.Fatal(err)
	}
	content := []byte(body)
	s := New(Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write(content) }), Known: known, Context: context.Background(), Pool: pool})
	go func() {
		if nc, err := lis.Accept(); err == nil {
			s.Serve(nc)
		}
	}()
	nc, err := net.Dial("tcp", lis.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	send(t, nc, request)
	p := make([]byte, 4096)
	n, err := nc.Read(p)
	if err != nil {
		t.Fatal(err)
	}
	text := []byte(request)
	if got := testing.AllocsPerRun(200, func() {
		nc.Write(text)
		io.ReadFull(nc, p[:n])
	}); got > allocations {
		t.Errorf("%v allocations", got)
	}
	if used := pool.Stats().InUse; used != 0 {
		t.Errorf("%d bytes in use", used)
	}
}
