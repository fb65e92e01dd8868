package smb

import (
	"cmp"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
)

// browse answers GET and HEAD of a directory with a page of links to what is in it, for browsers. WebDAV leaves that open
// (RFC 4918 section 9.4), and webdav.Handler refuses it. Other requests are passed to next.
func (b *below) browse(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			if info, err := b.Stat(r.Context(), r.URL.Path); err == nil && info.IsDir() {
				b.serveDirectory(w, r)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func (b *below) serveDirectory(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/") { // links are relative to the directory
		// Not http.Redirect, which joins the target to a path that not every Go release has escaped: a "#" in it would
		// change its meaning.
		to := relative(path.Base(r.URL.Path) + "/")
		if r.URL.RawQuery != "" {
			to += "?" + r.URL.RawQuery
		}
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusMovedPermanently)
		return
	}
	entries, err := b.list(r)
	if err != nil {
		status := http.StatusInternalServerError
		if errors.Is(err, fs.ErrPermission) {
			status = http.StatusForbidden
		}
		http.Error(w, http.StatusText(status), status)
		return
	}
	slices.SortFunc(entries, func(x, y fs.FileInfo) int { return cmp.Compare(x.Name(), y.Name()) })
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'none'")
	title := html.EscapeString(r.URL.Path)
	fmt.Fprintf(w, "<!DOCTYPE html>\n<html lang=\"en\">\n<meta name=\"viewport\" content=\"width=device-width\">\n<title>%s</title>\n<h1>%s</h1>\n<ul>\n", title, title)
	if r.URL.Path != "/" {
		fmt.Fprintln(w, `<li><a href="../">../</a>`)
	}
	for _, e := range entries {
		name, bytes := e.Name(), ""
		if e.IsDir() {
			name += "/"
		} else {
			bytes = " " + size(e.Size())
		}
		fmt.Fprintf(w, "<li><a href=\"%s\">%s</a>%s\n", html.EscapeString(relative(name)), html.EscapeString(printable(name)), bytes)
	}
	fmt.Fprintln(w, "</ul>")
}

func (b *below) list(r *http.Request) ([]fs.FileInfo, error) {
	dir, err := b.OpenFile(r.Context(), r.URL.Path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.Readdir(-1)
}

// relative is a URL that leads to name in the directory of the request.
func relative(name string) string { return (&url.URL{Path: "./" + name}).String() }
