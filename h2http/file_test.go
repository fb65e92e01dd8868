package h2http_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/tarntest"
)

// fileOf makes a file of n bytes, which it returns, too.
func fileOf(t *testing.T, n int) (name string, content []byte) {
	t.Helper()
	content = make([]byte, n)
	for i := range content {
		content[i] = byte(i ^ i>>8 ^ i>>16)
	}
	name = filepath.Join(t.TempDir(), "content.bin")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return name, content
}

// TestFiles: files of any length arrive whole or in part, as ServeFile and io.CopyN send them, several at a time on one connection; the
// file's offset is behind what was sent.
func TestFiles(t *testing.T) {
	const size = 500_001
	name, content := fileOf(t, size)
	mux := http.NewServeMux()
	mux.HandleFunc("/serve", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, name) })
	mux.HandleFunc("/copy", func(w http.ResponseWriter, r *http.Request) {
		f, err := os.Open(name)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		if n, err := io.CopyN(w, f, size-1000); n != size-1000 || err != nil {
			t.Errorf("%d bytes copied: %v", n, err)
		}
		if at, err := f.Seek(0, io.SeekCurrent); at != size-1000 || err != nil {
			t.Errorf("the offset is %d: %v", at, err)
		}
		if n, err := io.CopyN(w, f, size); n != 1000 || err != io.EOF {
			t.Errorf("%d bytes copied at the end: %v", n, err)
		}
	})
	mux.HandleFunc("/short", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(size/2))
		f, err := os.Open(name)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		if _, err := io.CopyN(w, f, size); err != http.ErrContentLength {
			t.Errorf("beyond the declared length: %v", err)
		}
	})
	url := serveWith(t, tarntest.NewPool(t), mux)
	client := &http.Client{Transport: &h2http.Transport{}}
	defer client.CloseIdleConnections()
	get := func(path, ranged string) ([]byte, error) {
		r, err := http.NewRequest("GET", url+path, nil)
		if err != nil {
			return nil, err
		}
		if ranged != "" {
			r.Header.Set("Range", ranged)
		}
		resp, err := client.Do(r)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		return io.ReadAll(resp.Body)
	}
	done := make(chan struct{})
	for range 4 {
		go func() {
			defer func() { done <- struct{}{} }()
			for _, x := range []struct {
				path, ranged string
				want         []byte
			}{
				{"/serve", "", content},
				{"/serve", "bytes=300001-", content[300_001:]},
				{"/serve", "bytes=5-450004", content[5:450_005]},
				{"/copy", "", content},
			} {
				if got, err := get(x.path, x.ranged); err != nil || !bytes.Equal(got, x.want) {
					t.Errorf("%s %s: %d bytes of %d: %v", x.path, x.ranged, len(got), len(x.want), err)
				}
			}
			if got, err := get("/short", ""); len(got) > size/2 || err == nil && !bytes.Equal(got, content[:size/2]) {
				t.Errorf("%d bytes beyond the declared length: %v", len(got), err)
			}
		}()
	}
	for range 4 {
		<-done
	}
}

// TestPipeAsFile: an *os.File that is a pipe, of which reads wait, is sent as well.
func TestPipeAsFile(t *testing.T) {
	_, content := fileOf(t, 1<<20)
	url := serveWith(t, tarntest.NewPool(t), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in, out, err := os.Pipe()
		if err != nil {
			t.Error(err)
			return
		}
		defer in.Close()
		go func() {
			defer out.Close()
			out.Write(content)
		}()
		if n, err := io.CopyN(w, in, 2<<20); n != 1<<20 || err != io.EOF {
			t.Errorf("%d bytes copied: %v", n, err)
		}
	}))
	client := &http.Client{Transport: &h2http.Transport{}}
	defer client.CloseIdleConnections()
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes: %v", len(got), err)
	}
}

// TestLongWrites: long Writes of bytes and strings arrive, several at a time on one connection; a handler may change what it has written
// when Write returns.
func TestLongWrites(t *testing.T) {
	const size = 700_001
	_, content := fileOf(t, size)
	text := string(content)
	url := serveWith(t, tarntest.NewPool(t), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := bytes.Clone(content)
		if n, err := w.Write(p); n != size || err != nil {
			t.Errorf("%d bytes written: %v", n, err)
		}
		clear(p)
		if n, err := io.WriteString(w, text); n != size || err != nil {
			t.Errorf("%d bytes written as a string: %v", n, err)
		}
	}))
	client := &http.Client{Transport: &h2http.Transport{}}
	defer client.CloseIdleConnections()
	done := make(chan struct{})
	for range 4 {
		go func() {
			defer func() { done <- struct{}{} }()
			resp, err := client.Get(url)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			got, err := io.ReadAll(resp.Body)
			if err != nil || len(got) != 2*size || !bytes.Equal(got[:size], content) || !bytes.Equal(got[size:], content) {
				t.Errorf("%d bytes: %v", len(got), err)
			}
		}()
	}
	for range 4 {
		<-done
	}
}

// TestFileBecomesShorter: when a file becomes shorter while it is sent, its handler sees its end, and the stream is reset, since fewer
// bytes came than were announced.
func TestFileBecomesShorter(t *testing.T) {
	const size, first, left = 8 << 20, 1 << 19, 1 << 20
	name, content := fileOf(t, size)
	url := serveWith(t, tarntest.NewPool(t), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, err := os.Open(name)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		w.Header().Set("Content-Length", fmt.Sprint(size))
		w.Header().Set("Content-Type", "application/octet-stream")
		if n, err := io.CopyN(w, f, first); n != first || err != nil {
			t.Errorf("%d bytes copied: %v", n, err)
		}
		if err := os.Truncate(name, left); err != nil {
			t.Error(err)
		}
		if n, err := io.CopyN(w, f, size-first); n != left-first || err != io.EOF {
			t.Errorf("%d bytes copied of a file that has become shorter: %v", n, err)
		}
	}))
	client := &http.Client{Transport: &h2http.Transport{}}
	defer client.CloseIdleConnections()
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); err == nil || len(got) > left || !bytes.Equal(got, content[:len(got)]) {
		t.Errorf("%d bytes of a file that has become shorter: %v", len(got), err)
	}
}

// TestFileThatIsLessThanAsked: a handler that asks for more than a short file has gets a Content-Length, and one that cannot read at all
// can still answer with an error.
func TestFileThatIsLessThanAsked(t *testing.T) {
	name, content := fileOf(t, 1000)
	mux := http.NewServeMux()
	for path, name := range map[string]string{"/short": name, "/directory": filepath.Dir(name)} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			f, err := os.Open(name)
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			w.Header().Set("Content-Type", "text/plain")
			if _, err := io.CopyN(w, f, 1<<20); err != io.EOF {
				http.Error(w, "unreadable", http.StatusInternalServerError)
			}
		})
	}
	url := serveWith(t, tarntest.NewPool(t), mux)
	client := &http.Client{Transport: &h2http.Transport{}}
	defer client.CloseIdleConnections()
	for path, want := range map[string]struct {
		status int
		body   string
	}{"/short": {200, string(content)}, "/directory": {500, "unreadable\n"}} {
		resp, err := client.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != want.status || string(got) != want.body || resp.ContentLength != int64(len(want.body)) {
			t.Errorf("%s: %s, %d bytes of %d: %v", path, resp.Status, len(got), resp.ContentLength, err)
		}
	}
}

// TestLongWriteTellsItsType: the first bytes of a long Write tell the Content-Type, as those of a short one do, also in the answer to HEAD,
// of which nothing is copied.
func TestLongWriteTellsItsType(t *testing.T) {
	page := append([]byte("<!DOCTYPE html><html>"), make([]byte, 1<<20)...)
	pool := tarntest.NewPool(t)
	url := serveWith(t, pool, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n, err := w.Write(page); n != len(page) || err != nil {
			t.Errorf("%d bytes written: %v", n, err)
		}
	}))
	client := &http.Client{Transport: &h2http.Transport{}}
	defer client.CloseIdleConnections()
	resp, err := client.Head(url)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if got := resp.Header.Get("Content-Type"); got != "text/html; charset=utf-8" {
		t.Errorf("Content-Type of HEAD: %q", got)
	}
	if n := taken(pool); n >= uint64(len(page)) {
		t.Errorf("memory for %d bytes, of which nothing is sent", n)
	}
	if resp, err = client.Get(url); err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || !bytes.Equal(got, page) || resp.Header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("%d bytes, %v: %v", len(got), resp.Header, err)
	}
}
