package main

import (
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
)

// fileChunk is the most of a file the server reads at a time.
const fileChunk = 128 << 10

// runFiles records an HTTP server of files over the Go source tree: each file is read into a buffer of
// its own size, or of fileChunk again and again while it is larger.
func runFiles(r *recorder, gets int) (string, error) {
	root, err := sourceTree()
	if err != nil {
		return "", err
	}
	var names []string
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			name, _ := filepath.Rel(root, path)
			names = append(names, filepath.ToSlash(name))
		}
		return err
	})
	if err != nil {
		return "", err
	}
	dir := os.DirFS(root)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		f, err := dir.Open(req.URL.Path[1:])
		if err != nil {
			http.NotFound(w, req)
			return
		}
		defer f.Close()
		serveFile(w, f, r)
	}))
	defer server.Close()
	err = drive(r, gets, func(rng *rand.Rand) error {
		resp, err := server.Client().Get(server.URL + "/" + names[rng.IntN(len(names))])
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	})
	return "net/http file server over the Go source tree: buffers as large as the file, at most 128 KiB; 8 clients", err
}

func serveFile(w http.ResponseWriter, f fs.File, r *recorder) {
	info, err := f.Stat()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Length", strconv.FormatInt(info.Size(), 10))
	for rest := info.Size(); rest > 0; {
		b := r.Get(int(min(rest, fileChunk)))
		n, err := io.ReadFull(f, *b)
		if err == nil {
			_, err = w.Write((*b)[:n])
		}
		r.Put(b)
		if err != nil {
			return
		}
		rest -= int64(n)
	}
}
