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

// Handler serves what h does, and keeps the files of PUT, COPY and MOVE. webdav.Handler by itself empties or removes the destination
// before it writes, copies or renames, and compares names by case, which SMB servers usually do not: a MOVE from "readme" to "README"
// would remove the file. With Handler
//   - PUT, and COPY of a file onto a file or a new name, write a file beside the destination, whose name begins with ".tarn-", and
//     rename it when it is complete; otherwise the destination stays as it was;
//   - MOVE between names that differ only in case renames;
//   - MOVE of a file onto a file replaces it in one step, so that it stays when the rename fails;
//   - MOVE of a name that does not exist is 404 and removes nothing;
//   - COPY and MOVE to a directory that the source is in, to what is in the source, and COPY to a name that differs only in case,
//     are 403;
//   - PUT with Content-Range, which writes a part of a file, is 400;
//   - PUT, and COPY of a file, for which the server's disk or the user's quota has no room are 507;
//   - PROPFIND describes the entries of a directory as the SMB server lists them, in two round trips instead of up to nine for each
//     entry, if the file system is that of New, or passes the context to it. Windows may list a file that is open with the length and
//     time that it had before. A directory that may not be read has no entries;
//   - If-Match and If-None-Match are observed by PUT, DELETE, COPY and MOVE, too.
//
// The destination is written in place if the file system permits no new file beside it, or does not permit that it is replaced, as
// SMB servers may not if it is open. In the second case everything has been received before the destination is changed.
func Handler(h *webdav.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodPut, http.MethodDelete, "COPY", "MOVE":
			if status := refusal(h, r); status != 0 {
				http.Error(w, webdav.StatusText(status), status)
				return
			}
		}
		switch r.Method {
		case http.MethodPut:
			serveUpload(h, w, r, h.FileSystem, cleaned(h, r.URL.Path))
		case "COPY", "MOVE":
			serveTransfer(h, w, r)
		case "PROPFIND":
			h.ServeHTTP(w, r.WithContext(describing(r.Context())))
		default:
			h.ServeHTTP(w, r)
		}
	})
}

// serveTransfer serves the COPY or MOVE r.
func serveTransfer(h *webdav.Handler, w http.ResponseWriter, r *http.Request) {
	ctx, files := r.Context(), h.FileSystem
	to, err := url.Parse(r.Header.Get("Destination"))
	if err != nil {
		h.ServeHTTP(w, r) // which refuses it
		return
	}
	src, dst := cleaned(h, r.URL.Path), cleaned(h, to.Path)
	locks, locking := transferLocks{LockSystem: h.LockSystem, submitted: submitted(r.Header.Get("If"))}, *h
	if r.Method == "MOVE" {
		locks.source = src
	}
	locking.LockSystem = locks
	h = &locking
	switch same := src == dst || strings.EqualFold(src, dst) && !distinct(ctx, files, src, dst); {
	case same && src != dst && r.Method == "MOVE":
		serveWith(h, w, r, &renaming{files, dst})
		return
	case same, inside(src, dst), inside(dst, src):
		http.Error(w, webdav.StatusText(http.StatusForbidden), http.StatusForbidden)
		return
	}
	from, err := files.Stat(ctx, src)
	isFile := err == nil && !from.IsDir()
	if r.Method == "MOVE" && os.IsNotExist(err) {
		http.Error(w, webdav.StatusText(http.StatusNotFound), http.StatusNotFound)
		return
	}
	onto, err := files.Stat(ctx, dst)
	ontoFile := err == nil && !onto.IsDir()
	switch {
	case isFile && r.Method == "COPY" && (ontoFile || os.IsNotExist(err)):
		serveUpload(h, w, r, &replacing{files, dst}, dst)
	case isFile && r.Method == "MOVE" && ontoFile:
		serveWith(h, w, r, &replacing{files, dst})
	default:
		h.ServeHTTP(w, r)
	}
}

// serveWith has h serve r with another file system.
func serveWith(h *webdav.Handler, w http.ResponseWriter, r *http.Request, files webdav.FileSystem) {
	once := *h
	once.FileSystem = files
	once.ServeHTTP(w, r)
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

// replacing is the file system of a COPY or MOVE that replaces dst by a rename.
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
