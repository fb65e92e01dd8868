package webdav_test

import (
	"cmp"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/internal/rig"
)

// locked locks the file at url and returns its lock token, with angle brackets.
func locked(t *testing.T, url string) string {
	t.Helper()
	body := `<?xml version="1.0"?><lockinfo xmlns="DAV:"><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>`
	resp, _ := exchange(t, "LOCK", url, body)
	if resp.StatusCode >= 300 {
		t.Fatalf("LOCK: %s", resp.Status)
	}
	return resp.Header.Get("Lock-Token")
}

// A client that has locked a file renames it, as davfs2 does when a program writes a file and gives it its name.
func TestTransferLocked(t *testing.T) {
	for _, mode := range rig.Modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			h := serve(t, mode)
			for _, c := range []struct {
				name, method  string // and the destination, if it is not /b
				locks         string // names that are locked
				token         string // the names whose tokens are in If
				status, there int
			}{
				{"the source is locked", "MOVE", "/a", "/a", 201, 404},
				{"the name in another case", "MOVE /A", "/a", "/a", 201, 200},
				{"the destination is locked", "MOVE", "/b", "/b", 204, 404},
				{"the destination is another client's", "MOVE", "/a /b", "/a", 412, 200},
				{"the source is another client's", "MOVE", "/a /b", "/b", 412, 200},
				{"both are locked", "MOVE", "/a /b", "/b /a", 204, 404},
				{"both are locked, in another order", "MOVE", "/b /a", "/a /b", 204, 404},
				{"another lock", "MOVE", "/a /c", "/c", 412, 200},
				{"no lock is named", "MOVE", "/a", "", 423, 200},
				{"COPY, the source is locked", "COPY", "/a", "/a", 201, 200},
				{"COPY, the destination is locked", "COPY", "/b", "/b", 204, 200},
				{"COPY, the destination is another client's", "COPY", "/b /c", "/c", 412, 200},
			} {
				request(t, "PUT", h.URL+"/a", "data")
				request(t, "DELETE", h.URL+"/b", "")
				tokens := map[string]string{}
				for _, name := range strings.Fields(c.locks) {
					tokens[name] = locked(t, h.URL+name)
				}
				method, to, _ := strings.Cut(c.method, " ")
				header := []string{"Destination", h.URL + cmp.Or(to, "/b"), "Overwrite", "T"}
				condition := ""
				for _, name := range strings.Fields(c.token) {
					condition += "<" + h.URL + name + `> (Not <DAV:no-lock> ["an (ETag) <"] ` + tokens[name] + ") "
				}
				if condition != "" {
					header = append(header, "If", condition)
				}
				if status, body := request(t, method, h.URL+"/a", "", header...); status != c.status {
					t.Errorf("%s: %d, want %d, %.200q", c.name, status, c.status, body)
				}
				if status, _ := request(t, "GET", h.URL+"/a", ""); status != c.there {
					t.Errorf("%s: GET of the source: %d, want %d", c.name, status, c.there)
				}
				for name, token := range tokens {
					if status, _ := request(t, "UNLOCK", h.URL+name, "", "Lock-Token", token); status != 204 {
						t.Errorf("%s: UNLOCK %s: %d", c.name, name, status)
					}
				}
				// No lock of the request is left.
				for _, name := range []string{"/a", "/b"} {
					token := locked(t, h.URL+name)
					request(t, "UNLOCK", h.URL+name, "", "Lock-Token", token)
				}
			}
		})
	}
}
