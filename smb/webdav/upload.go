package webdav

import (
	"cmp"
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"os"
	"path"

	"golang.org/x/net/webdav"
)

// serveUpload has h serve r, a PUT or the COPY of a file, and keeps what the destination dst has until the new content is complete. h
// writes a file beside dst, which is renamed when h reports success, and otherwise removed.
func serveUpload(h *webdav.Handler, w http.ResponseWriter, r *http.Request, files webdav.FileSystem, dst string) {
	u := &upload{FileSystem: files, ctx: r.Context(), dst: dst}
	defer u.discard() // also if the request's body panics
	once := *h
	once.FileSystem = u
	if h.Logger != nil {
		once.Logger = func(r *http.Request, err error) { h.Logger(r, cmp.Or(err, u.err)) }
	}
	once.ServeHTTP(&uploadResponse{ResponseWriter: w, upload: u}, r)
}

// upload is the file system of one PUT or COPY, which serves its request in one goroutine.
type upload struct {
	webdav.FileSystem
	ctx    context.Context
	dst    string
	beside string // the name of the new file; "" if there is none, or none any more
	err    error  // of commit
	full   bool   // the server had no room for the new content
}

// OpenFile opens another file in the place of dst, unless that is a directory, which the file system refuses. Where it permits no new
// file, dst is written in place.
func (u *upload) OpenFile(ctx context.Context, name string, flag int, perm os.FileMode) (webdav.File, error) {
	if flag&os.O_TRUNC == 0 || path.Clean("/"+name) != u.dst {
		return u.FileSystem.OpenFile(ctx, name, flag, perm)
	}
	if fi, err := u.Stat(ctx, name); err != nil || !fi.IsDir() {
		beside := path.Join(path.Dir(u.dst), ".tarn-"+rand.Text()) // as package smb's ReplaceFile names such files
		f, err := u.FileSystem.OpenFile(ctx, beside, flag|os.O_EXCL, perm)
		if !os.IsPermission(err) {
			u.beside = beside
			return u.writes(f), err
		}
	}
	f, err := u.FileSystem.OpenFile(ctx, name, flag, perm)
	return u.writes(f), err
}

// writes returns f, which the upload is written to.
func (u *upload) writes(f webdav.File) webdav.File {
	if f, ok := f.(*file); ok {
		f.upload = u
	}
	return f
}

// commit gives the new file its name. A server may refuse to replace a file that is open; then its content is copied to that file.
func (u *upload) commit() error {
	if u.beside == "" {
		return nil
	}
	err := u.Rename(u.ctx, u.beside, u.dst)
	if err == nil {
		u.beside = ""
	} else if os.IsPermission(err) {
		err = u.copyInPlace()
	}
	return err
}

func (u *upload) copyInPlace() error {
	from, err := u.FileSystem.OpenFile(u.ctx, u.beside, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := u.FileSystem.OpenFile(u.ctx, u.dst, os.O_RDWR|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = io.Copy(u.writes(to), from)
	return cmp.Or(err, to.Close())
}

// discard removes the new file if it has not become dst, also if the request's context has ended.
func (u *upload) discard() {
	if u.beside == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(u.ctx), stallTimeout)
	defer cancel()
	u.RemoveAll(ctx, u.beside)
}

// uploadResponse commits the upload before the handler's success is sent, and says so where the server has no room.
type uploadResponse struct {
	http.ResponseWriter
	upload   *upload
	replaced bool // the status, and so the text, is not the handler's
}

func (w *uploadResponse) WriteHeader(status int) {
	answer := status
	if status/100 == 2 {
		if w.upload.err = w.upload.commit(); w.upload.err != nil {
			w.Header().Del("ETag") // of the new file
			answer = http.StatusInternalServerError
		}
	}
	if answer/100 != 2 && w.upload.full {
		answer = http.StatusInsufficientStorage // RFC 4918 section 11.5
	}
	if answer == status {
		w.ResponseWriter.WriteHeader(status)
		return
	}
	w.replaced = true
	http.Error(w.ResponseWriter, webdav.StatusText(answer), answer)
}

// Write leaves out the handler's text if it is about another status.
func (w *uploadResponse) Write(p []byte) (int, error) {
	if w.replaced {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}
