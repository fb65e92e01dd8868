package h2http_test

import (
	"io"
	"net/http"
	"slices"
	"testing"
)

// askedReader notes how many bytes it is asked for, and gives as many as next says: 0 ends it.
type askedReader struct {
	asked []int
	next  func(asked int) int
}

func (r *askedReader) Read(p []byte) (int, error) {
	n := r.next(len(p))
	if n == 0 {
		return 0, io.EOF
	}
	r.asked = append(r.asked, len(p))
	return n, nil
}

// TestPieces: Readers are asked for 64 KiB at first, then for less where they give little, and of a request's body for more where
// they fill that.
func TestPieces(t *testing.T) {
	const k = 1 << 10
	give := func(reads int, n func(asked int) int) func() *askedReader {
		return func() *askedReader {
			left := reads
			return &askedReader{next: func(asked int) int {
				if left--; left < 0 {
					return 0
				}
				return n(asked)
			}}
		}
	}
	for _, c := range []struct {
		name       string
		reader     func() *askedReader
		file, body []int // what is asked for, when a response is written and when a request's body is sent
	}{
		{"full", give(5, func(asked int) int { return asked }),
			[]int{64 * k, 64 * k, 64 * k, 64 * k, 64 * k}, []int{64 * k, 128 * k, 256 * k, 256 * k, 256 * k}},
		{"half", give(3, func(asked int) int { return asked / 2 }), []int{64 * k, 64 * k, 64 * k}, []int{64 * k, 64 * k, 64 * k}},
		{"a byte", give(6, func(int) int { return 1 }), []int{64 * k, 32 * k, 16 * k, 8 * k, 4 * k, 4 * k}, []int{64 * k, 32 * k, 16 * k, 8 * k, 4 * k, 4 * k}},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := c.reader()
			r := stacks[4].start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == "POST" {
					io.Copy(io.Discard, r.Body)
					return
				}
				if _, err := io.Copy(w, file); err != nil {
					t.Error(err)
				}
			}))
			rt := ownTransport(t, new(clientSetup))
			resp, err := (&http.Client{Transport: rt}).Get(r.url)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if !slices.Equal(file.asked, c.file) {
				t.Errorf("a response's Reader was asked for %d, not %d", file.asked, c.file)
			}
			body := c.reader()
			resp, err = (&http.Client{Transport: rt}).Post(r.url, "", body)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if !slices.Equal(body.asked, c.body) {
				t.Errorf("a request's body was asked for %d, not %d", body.asked, c.body)
			}
		})
	}
}
