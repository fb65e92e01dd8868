package h2http_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// TestClosedBodiesGiveTheWindowBack: responses that are closed unread, and together hold more than the connection's window, do not
// hold up the following ones.
func TestClosedBodiesGiveTheWindowBack(t *testing.T) {
	const size, n = 250 << 10, 20 // h2http's window is 352 KiB for a stream and 1 MiB for the connection
	eachClient(t, func(t *testing.T, s clientStack) {
		wrote := make(chan error, 1)
		o := startOrigin(t, s.tls, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := w.Write(make([]byte, size))
			wrote <- err
			<-r.Context().Done() // by the reset
		}))
		rt := s.make(t, new(clientSetup))
		for range n {
			req, _ := http.NewRequest("GET", o.url, nil)
			resp, err := rt.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			if err := <-wrote; err != nil { // all of it has been sent
				t.Error(err)
			}
			resp.Body.Close()
		}
		// net/http hands a connection to the request that has it dialled before it lists it for others, so that the next request may come between.
		if n := o.conns.len(); n != 1 && s.own {
			t.Errorf("%d connections", n)
		}
	})
}

// TestUnreadResponsesDoNotHoldUpOthers: a program may leave as many responses unread as a server permits at a time by default.
func TestUnreadResponsesDoNotHoldUpOthers(t *testing.T) {
	const size, n = 340 << 10, 240 // h2http's window is 352 KiB for a stream
	eachClient(t, func(t *testing.T, s clientStack) {
		wrote := make(chan error, n)
		o := startOrigin(t, s.tls, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/last" {
				io.WriteString(w, "last")
				return
			}
			_, err := w.Write(make([]byte, size))
			if err == nil {
				err = http.NewResponseController(w).Flush()
			}
			wrote <- err
			<-r.Context().Done() // more would follow
		}))
		rt := s.make(t, new(clientSetup))
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		get := func(path string) io.ReadCloser {
			t.Helper()
			req, _ := http.NewRequestWithContext(ctx, "GET", o.url+path, nil)
			resp, err := rt.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { resp.Body.Close() })
			return resp.Body
		}
		for range n {
			get("/")
		}
		for i := range n {
			select {
			case err := <-wrote:
				if err != nil {
					t.Error(err)
				}
			case <-ctx.Done():
				t.Fatalf("%d of %d responses have been sent", i, n)
			}
		}
		if b, err := io.ReadAll(get("/last")); string(b) != "last" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
	})
}

// TestCloseIdleConnections closes none on which a request is under way.
func TestCloseIdleConnections(t *testing.T) {
	eachClient(t, func(t *testing.T, s clientStack) {
		more, closed := make(chan struct{}), make(chan struct{}, 4)
		o := startOrigin(t, s.tls, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			if r.URL.Path == "/busy" {
				<-more
			}
			fmt.Fprint(w, r.Context().Value(connNumber{}))
		}), func(srv *http.Server) {
			srv.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateClosed {
					closed <- struct{}{}
				}
			}
		})
		rt := s.make(t, new(clientSetup))
		get := func(path string) *http.Response {
			t.Helper()
			req, _ := http.NewRequest("GET", o.url+path, nil)
			resp, err := rt.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			return resp
		}
		from := func(resp *http.Response) string {
			t.Helper()
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Error(err)
			}
			return string(b)
		}
		busy := get("/busy")
		rt.(interface{ CloseIdleConnections() }).CloseIdleConnections()
		second := from(get("/"))
		close(more)
		if first := from(busy); first != second && s.own { // as above: net/http may dial again
			t.Errorf("the connection of a request under way, %s, was closed: the next has %s", first, second)
		}
		rt.(interface{ CloseIdleConnections() }).CloseIdleConnections()
		select {
		case <-closed:
		case <-time.After(20 * time.Second):
			t.Error("the idle connection was not closed")
		}
		if third := from(get("/")); third == second {
			t.Error("a closed connection was used")
		}
	})
}
