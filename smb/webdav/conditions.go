package webdav

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"

	"golang.org/x/net/webdav"
)

// refusal is the status with which to refuse r, which changes a file, because of its header fields that webdav.Handler ignores; 0: it is
// not refused. If-Match and If-None-Match are compared before the change: another client may come between.
func refusal(h *webdav.Handler, r *http.Request) int {
	if r.Method == http.MethodPut && r.Header.Get("Content-Range") != "" {
		return http.StatusBadRequest // RFC 9110, 14.5: the body is a part of the file
	}
	match, noneMatch := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
	if match == "" && noneMatch == "" {
		return 0
	}
	var tag string // "" if nothing has the name
	fi, err := h.FileSystem.Stat(r.Context(), cleaned(h, r.URL.Path))
	if err == nil {
		if tag, err = tagOf(r.Context(), fi); err != nil {
			return http.StatusInternalServerError
		}
	} else if !os.IsNotExist(err) {
		return 0 // h meets the error, too
	}
	if match != "" && !lists(match, tag) || noneMatch != "" && lists(noneMatch, tag) {
		return http.StatusPreconditionFailed
	}
	return 0
}

// tagOf is the entity tag that webdav.Handler sends.
func tagOf(ctx context.Context, fi os.FileInfo) (string, error) {
	if e, ok := fi.(webdav.ETager); ok {
		if tag, err := e.ETag(ctx); err != webdav.ErrNotImplemented {
			return tag, err
		}
	}
	return fmt.Sprintf(`"%x%x"`, fi.ModTime().UnixNano(), fi.Size()), nil
}

// lists reports whether a list of entity tags, or "*", includes tag (RFC 9110, 13.1).
func lists(list, tag string) bool {
	if tag == "" {
		return false
	}
	for item := range strings.SplitSeq(list, ",") {
		if item = strings.TrimSpace(item); item == tag || item == "*" {
			return true
		}
	}
	return false
}
