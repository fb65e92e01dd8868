package webdav_test

import (
	"testing"

	"github.com/tarn-go/tarn/internal/rig"
)

// TestMovedOntoItself copies and moves what the destination is, is in, or contains, also by names in another case: webdav.Handler
// removes the destination first.
func TestMovedOntoItself(t *testing.T) {
	for _, mode := range []rig.Mode{rig.Plain, rig.Signed, rig.Encrypted} {
		t.Run(mode.Name(), func(t *testing.T) {
			h := serve(t, mode)
			for _, c := range []struct {
				method, from, to string
				status           int
				at               string // where the file is afterwards
			}{
				{"MOVE", "/d/file", "/d/FILE", 201, "/d/FILE"},
				{"MOVE", "/d", "/D", 201, "/D/file"},
				{"COPY", "/d/file", "/d/FILE", 403, "/d/file"},
				{"COPY", "/d", "/D", 403, "/d/file"},
				{"MOVE", "/d/file", "/d", 403, "/d/file"},
				{"COPY", "/d/file", "/D/", 403, "/d/file"},
				{"MOVE", "/d", "/d/e", 403, "/d/file"},
				{"COPY", "/d", "/D/e", 403, "/d/file"},
				{"MOVE", "/none", "/d", 404, "/d/file"},
				{"COPY", "/none", "/d", 404, "/d/file"},
				{"MOVE", "/d/file", "/", 403, "/d/file"},
				{"MOVE", "/d", "/d//", 403, "/d/file"},
				{"MOVE", "/d/file", "/e", 201, "/e"},
				{"MOVE", "/d/file", "/e", 204, "/e"},
				{"COPY", "/d/file", "/e", 204, "/e"},
			} {
				request(t, "DELETE", h.URL+"/d", "")
				request(t, "MKCOL", h.URL+"/d", "")
				request(t, "PUT", h.URL+"/d/file", "data")
				status, body := request(t, c.method, h.URL+c.from, "", "Destination", h.URL+c.to, "Overwrite", "T")
				if status != c.status {
					t.Errorf("%s %s to %s: %d, %.200q", c.method, c.from, c.to, status, body)
				}
				if status, body := request(t, "GET", h.URL+c.at, ""); status != 200 || body != "data" {
					t.Errorf("%s %s to %s, then GET: %d, %.200q", c.method, c.from, c.to, status, body)
				}
			}
		})
	}
}

// TestMovedBetweenCases copies and moves between two files whose names differ only in case.
func TestMovedBetweenCases(t *testing.T) {
	h := serve(t, rig.Plain, "case sensitive = yes")
	for method, want := range map[string]int{"COPY": 200, "MOVE": 404} {
		request(t, "PUT", h.URL+"/file", "data")
		request(t, "PUT", h.URL+"/FILE", "other")
		if status, _ := request(t, method, h.URL+"/file", "", "Destination", h.URL+"/FILE", "Overwrite", "F"); status != 412 {
			t.Errorf("%s without overwriting: %d", method, status)
		}
		if status, _ := request(t, method, h.URL+"/file", "", "Destination", h.URL+"/FILE", "Overwrite", "T"); status != 204 {
			t.Errorf("%s: %d", method, status)
		}
		if status, body := request(t, "GET", h.URL+"/FILE", ""); status != 200 || body != "data" {
			t.Errorf("%s, then GET of the destination: %d, %q", method, status, body)
		}
		if status, _ := request(t, "GET", h.URL+"/file", ""); status != want {
			t.Errorf("%s, then GET of the source: %d", method, status)
		}
	}
}
