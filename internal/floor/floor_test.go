package floor

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// TestCalls makes calls at the same time to a server that repeats each request three times. At most 64 KiB are under way.
func TestCalls(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/s/m" || r.Header.Get("K") != "v" {
			t.Errorf("%v, %v, %v", r.URL, r.Header, err)
		}
		w.Header().Set("Trailer", "grpc-status")
		for range 3 {
			if _, err := w.Write(b); err != nil {
				t.Error(err)
			}
		}
		w.Header().Set("Grpc-Status", "0")
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	defer s.Close()
	c, err := Dial(strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			for j := range 20 {
				request := bytes.Repeat([]byte{byte(i)}, j*1000)
				call, err := c.Open("/s/m", request, map[string][]string{"k": {"v"}})
				if err != nil {
					t.Error(err)
					return
				}
				n := 0
				for err == nil {
					err = call.Next(func(got []byte) error {
						n++
						if !bytes.Equal(got, request) {
							t.Errorf("sent %d bytes, received %d", len(request), len(got))
						}
						return nil
					})
				}
				if !errors.Is(err, io.EOF) || n != 3 {
					t.Errorf("%d messages, %v", n, err)
				}
			}
		})
	}
	wg.Wait()
}
