package h2http_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/net/http2"
)

// lean runs f for the stacks that do not go through net/http's connections.
func lean(t *testing.T, f func(t *testing.T, s stack)) {
	for _, s := range stacks[len(stacks)-2:] {
		t.Run(s.name, func(t *testing.T) { f(t, s) })
	}
}

// longFile makes a file of n random bytes.
func longFile(t *testing.T, n int) (name string, content []byte) {
	t.Helper()
	content = make([]byte, n)
	rand.NewChaCha8([32]byte{}).Read(content)
	name = filepath.Join(t.TempDir(), "long")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return name, content
}

// serveLong serves the file name as a whole or a range of it, and from /copy by io.Copy.
func serveLong(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/copy" {
			http.ServeFile(w, r, name)
			return
		}
		f, err := os.Open(name)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer f.Close()
		io.Copy(w, f)
	})
}

// TestLongFiles asks for a long file many times at once, with several priorities, as a whole and in part.
func TestLongFiles(t *testing.T) {
	lean(t, func(t *testing.T, s stack) {
		name, content := longFile(t, 300<<10+7)
		r := s.start(t, serveLong(name))
		const requests = 12
		errs := make(chan error, requests)
		for i := range requests {
			go func() { errs <- r.fetchLong(i, content) }()
		}
		for range requests {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
	})
}

// fetchLong asks for content in the i-th way and compares what comes.
func (r *rig) fetchLong(i int, content []byte) error {
	path, want := "/", content
	header := http.Header{"Priority": {[]string{"u=3", "u=1", "u=3, i"}[i%3]}}
	switch i % 4 {
	case 1:
		path = "/copy"
	case 2:
		header.Set("Range", "bytes=1000-270000")
		want = content[1000:270001]
	}
	req, err := http.NewRequest(http.MethodGet, r.url+path, nil)
	if err != nil {
		return err
	}
	req.Header = header
	resp, err := r.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("request %d: %d bytes, and not those that were asked for (%d)", i, len(got), len(want))
	}
	return nil
}

// TestLongFileBesideAStalledOne has a client that gives one stream no window receive the same file on another.
func TestLongFileBesideAStalledOne(t *testing.T) {
	lean(t, func(t *testing.T, s stack) {
		const size = 600 << 10
		name, _ := longFile(t, size)
		r := s.start(t, serveLong(name))
		p := r.dialPeer(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1000})
		p.window(0, 4*size)
		p.request(1, end, "GET", "/")
		p.until("the stalled stream's window's end", func() bool { s := p.streams[1]; return s != nil && s.data == 1000 })
		p.request(3, end, "GET", "/")
		p.window(3, size)
		p.until("the other file's end", func() bool { s := p.streams[3]; return s != nil && s.ended })
		p.window(1, size)
		p.until("the stalled file's end", func() bool { return p.streams[1].ended })
		p.mu.Lock()
		defer p.mu.Unlock()
		for id := uint32(1); id <= 3; id += 2 {
			if n := p.streams[id].data; n != size {
				t.Errorf("stream %d: %d bytes of %d", id, n, size)
			}
		}
	})
}
