//go:build unix

package rclone

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/rclone/rclone/fs"
	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
)

// counting is a connection that calls before with each request.
type counting struct {
	net.Conn
	before func()
}

func (c counting) Write(p []byte) (int, error) {
	c.before()
	return c.Conn.Write(p)
}

// TestReplacedBetweenRequests has another client replace a file by a symbolic link, or a link by a file, before each request of a change in
// turn. What the link leads to, and the file of the other client, stay as they are.
func TestReplacedBetweenRequests(t *testing.T) {
	srv := rigtest.StartPOSIX(t, "../..", rig.Config{Share: []string{"mangled names = no"}})
	path := configure(t, srv, map[string]string{"LINKS": "true", "CONNECTIONS": "1"})
	other := open(t, path)
	const precious = "the content of another client"
	link := func(in string) bool {
		o, err := other.NewObject(t.Context(), in+"a")
		must(t, err)
		if o.Remove(t.Context()) == nil { // a file that is open keeps its name until it is closed
			other.Put(t.Context(), strings.NewReader("target"), described(in+"a.rclonelink", 6))
		}
		return true // the target has the precious content in any case
	}
	for _, c := range []struct {
		name      string
		before    []string // files; a link's content is its target
		change    func(f *Fs, in string) error
		meanwhile func(in string) bool // whether the precious content is there afterwards
		stays     string               // a file that must have it; one of two
	}{
		{"put", []string{"a"}, func(f *Fs, in string) error {
			_, err := f.Put(t.Context(), strings.NewReader("new"), described(in+"a", 3))
			return err
		}, link, "target"},
		{"chunks", []string{"a"}, func(f *Fs, in string) error {
			_, w, err := f.OpenChunkWriter(t.Context(), in+"a", described(in+"a", 3))
			if err == nil {
				_, err = w.WriteChunk(t.Context(), 0, strings.NewReader("new"))
				err = errors.Join(err, w.Close(t.Context()))
			}
			return err
		}, link, "target"},
		{"copy", []string{"a", "source"}, func(f *Fs, in string) error {
			o, err := f.NewObject(t.Context(), in+"source")
			if err == nil {
				_, err = f.Copy(t.Context(), o, in+"a")
			}
			return err
		}, link, "target"},
		{"remove a link", []string{"a.rclonelink"}, func(f *Fs, in string) error {
			o, err := f.NewObject(t.Context(), in+"a.rclonelink")
			if err == nil {
				err = o.Remove(t.Context())
			}
			return err
		}, func(in string) bool {
			o, err := other.NewObject(t.Context(), in+"a.rclonelink")
			if err == nil {
				must(t, o.Remove(t.Context()))
			}
			_, err = other.Put(t.Context(), strings.NewReader(precious), described(in+"a", int64(len(precious))))
			return err == nil // a link that is open keeps its name until it is closed
		}, "a"},
		{"failed put", nil, func(f *Fs, in string) error {
			broken := io.MultiReader(strings.NewReader("new"), iotest.ErrReader(errors.New("a failed read")))
			_, err := f.Put(t.Context(), broken, described(in+"a", 6))
			return err
		}, func(in string) bool {
			o, err := other.NewObject(t.Context(), in+"target")
			must(t, err)
			if _, err := other.NewObject(t.Context(), in+"a"); err != fs.ErrorObjectNotFound { // otherwise it is not made yet, or is removed
				other.Move(t.Context(), o, in+"a")
			}
			return true
		}, "a target"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := open(t, path)
			must(t, f.Shutdown(t.Context()))
			f.conns.dialer.NoDurable = true // the server would wait for an answer to the break of an oplock, behind the request that waits
			var left atomic.Int64
			var meanwhile func()
			var there bool
			f.conns.dialer.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
				nc, err := new(net.Dialer).DialContext(ctx, network, addr)
				return counting{nc, func() {
					if left.Add(-1) == 0 {
						meanwhile()
					}
				}}, err
			}
			for n := int64(1); ; n++ {
				in := fmt.Sprintf("%s/%d/", c.name, n)
				put(t, other, in+"target", precious)
				for _, name := range c.before {
					put(t, other, in+name, "target")
				}
				_, err := f.List(t.Context(), in) // the session exists
				must(t, err)
				meanwhile = func() { there = c.meanwhile(in) }
				left.Store(n)
				err = c.change(f, in)
				if left.Load() > 0 {
					if left.Store(0); n < 3 {
						t.Errorf("the change has %d requests", n-1)
					}
					return
				}
				found := false
				for _, name := range strings.Fields(c.stays) {
					o, lookErr := other.NewObject(t.Context(), in+name)
					if lookErr != nil {
						continue
					}
					r, readErr := o.Open(t.Context())
					must(t, readErr)
					b, readErr := io.ReadAll(r)
					must(t, readErr)
					must(t, r.Close())
					found = found || string(b) == precious
				}
				if there && !found {
					t.Errorf("before request %d: %s has not the content of the other client; the change: %v", n, c.stays, err)
				}
			}
		})
	}
}
