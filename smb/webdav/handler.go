package webdav

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/net/webdav"
)

// Handler serves what h does, and keeps the files of COPY and MOVE. webdav.Handler by itself removes the destination before it copies
// or renames, and compares names by case, which SMB servers usually do not: a MOVE from "readme" to "README" would remove the file. With
// Handler
//   - MOVE between names that differ only in case renames;
//   - MOVE of a file onto a file replaces it in one step, so that it stays when the rename fails;
//   - MOVE of a name that does not exist is 404 and removes nothing;
//   - COPY and MOVE to a directory that the source is in, to what is in the source, and COPY to a name that differs only in case,
//     are 403.
func Handler(h *webdav.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != "COPY" && r.Method != "MOVE" {
			h.ServeHTTP(w, r)
			return
		}
		files, status := transferring(h, r)
		if status != 0 {
			http.Error(w, webdav.StatusText(status), status)
			return
		}
		once := *h
		once.FileSystem = files
		once.ServeHTTP(w, r)
	})
}

// transferring returns the file system for the COPY or MOVE r, or the status with which to refuse it.
func transferring(h *webdav.Handler, r *http.Request) (webdav.FileSystem, int) {
	ctx, files := r.Context(), h.FileSystem
	to, err := url.Parse(r.Header.Get("Destination"))
	if err != nil {
		return files, 0 // h refuses it
	}
	src, dst := cleaned(h, r.URL.Path), cleaned(h, to.Path)
	switch same := src == dst || strings.EqualFold(src, dst) && !distinct(ctx, files, src, dst); {
	case same && src != dst && r.Method == "MOVE":
		return &renaming{files, dst}, 0
	case same, inside(src, dst), inside(dst, src):
		return nil, http.StatusForbidden
	case r.Method == "COPY":
		return files, 0 // it opens the source first
	}
	from, err := files.Stat(ctx, src)
	if os.IsNotExist(err) {
		return nil, http.StatusNotFound
	}
	if onto, errOnto := files.Stat(ctx, dst); err == nil && errOnto == nil && !from.IsDir() && !onto.IsDir() {
		return &replacing{files, dst}, 0
	}
	return files, 0
}

// cleaned is the name of a URL's path in the file system.
func cleaned(h *webdav.Handler, urlPath string) string {
	return path.Clean("/" + strings.TrimPrefix(urlPath, h.Prefix))
}

// inside reports whether name is in the directory dir, by names as most servers match them.
func inside(name, dir string) bool {
	for name != "/" {
		if name = path.Dir(name); strings.EqualFold(name, dir) {
			return true
		}
	}
	return false
}

// distinct reports whether a directory has both names, which differ in case.
func distinct(ctx context.Context, files webdav.FileSystem, x, y string) bool {
	if path.Dir(x) != path.Dir(y) {
		return false
	}
	dir, err := files.OpenFile(ctx, path.Dir(x), os.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer dir.Close()
	entries, err := dir.Readdir(-1)
	if err != nil {
		return false
	}
	has := func(name string) bool {
		return slices.ContainsFunc(entries, func(e os.FileInfo) bool { return e.Name() == path.Base(name) })
	}
	return has(x) && has(y)
}

// renaming is the file system of a MOVE to dst, another name of its source: nothing else has that name.
type renaming struct {
	webdav.FileSystem
	dst string
}

func (f *renaming) Stat(ctx context.Context, name string) (os.FileInfo, error) {
	if path.Clean("/"+name) == f.dst {
		return nil, os.ErrNotExist
	}
	return f.FileSystem.Stat(ctx, name)
}

// replacing is the file system of a MOVE whose rename replaces dst.
type replacing struct {
	webdav.FileSystem
	dst string
}

func (f *replacing) RemoveAll(ctx context.Context, name string) error {
	if path.Clean("/"+name) == f.dst {
		return nil
	}
	return f.FileSystem.RemoveAll(ctx, name)
}
