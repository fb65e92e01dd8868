package webdav_test

import (
	"testing"

	"github.com/tarn-go/tarn/internal/rig"
)

// TestConditions changes files with conditions that hold, and that do not, and puts a part of a file.
func TestConditions(t *testing.T) {
	for _, mode := range rig.Modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			h := serve(t, mode)
			request(t, "PUT", h.URL+"/there", "old content")
			resp, _ := exchange(t, "HEAD", h.URL+"/there", "")
			tag := resp.Header.Get("ETag")
			for _, c := range []struct {
				method, path, field, value string
				status                     int
			}{
				{"PUT", "/there", "Content-Range", "bytes 3-5/11", 400},
				{"PUT", "/new", "Content-Range", "bytes 3-5/11", 400},
				{"PUT", "/there", "If-None-Match", "*", 412},
				{"PUT", "/there", "If-None-Match", `"other", ` + tag, 412},
				{"PUT", "/there", "If-Match", `"other"`, 412},
				{"PUT", "/new", "If-Match", "*", 412},
				{"PUT", "/new", "If-Match", tag, 412},
				{"DELETE", "/there", "If-Match", `"other"`, 412},
				{"MOVE", "/there", "If-Match", `"other"`, 412},
				{"GET", "/there", "If-Match", `"other"`, 412},
				{"GET", "/there", "If-Match", tag, 200},
				{"PUT", "/new", "If-None-Match", "*", 201},
				{"PUT", "/new", "If-None-Match", `"other"`, 201},
				{"PUT", "/new", "If-Match", "*", 201},
				{"DELETE", "/new", "If-Match", "*", 204},
				{"PUT", "/there", "If-Match", `"other", ` + tag, 201},
			} {
				if status, body := request(t, "GET", h.URL+"/there", ""); status != 200 || body != "old content" {
					t.Errorf("before %s %s, %s %s: %d, %q", c.method, c.path, c.field, c.value, status, body)
				}
				status, _ := request(t, c.method, h.URL+c.path, "part", c.field, c.value, "Destination", h.URL+"/moved")
				if status != c.status {
					t.Errorf("%s %s, %s %s: %d, want %d", c.method, c.path, c.field, c.value, status, c.status)
				}
			}
		})
	}
}
