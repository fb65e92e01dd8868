//go:build unix

package rclone

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/rclone/rclone/fs"
	"github.com/rclone/rclone/fs/object"
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

// requests counts those of a remote.
type requests struct {
	left      atomic.Int64
	meanwhile func()
}

// watchRequests counts the requests of f, in frames, from here on.
func watchRequests(t *testing.T, f *Fs) *requests {
	r := new(requests)
	must(t, f.Shutdown(t.Context()))
	f.conns.dialer.NoDurable = true // the server would wait for an answer to the break of an oplock, behind the request that waits
	f.conns.dialer.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, network, addr)
		return counting{nc, func() {
			if r.left.Add(-1) == 0 {
				r.meanwhile()
			}
		}}, err
	}
	return r
}

// before calls meanwhile before request n, from 1 on.
func (r *requests) before(n int64, meanwhile func()) {
	r.meanwhile = meanwhile
	r.left.Store(n)
}

// fewer reports whether there were fewer, and counts no more.
func (r *requests) fewer() bool { return r.left.Swap(0) > 0 }

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
			requests := watchRequests(t, f)
			var there bool
			for n := int64(1); ; n++ {
				in := fmt.Sprintf("%s/%d/", c.name, n)
				put(t, other, in+"target", precious)
				for _, name := range c.before {
					put(t, other, in+name, "target")
				}
				_, err := f.List(t.Context(), in) // the session exists
				must(t, err)
				requests.before(n, func() { there = c.meanwhile(in) })
				err = c.change(f, in)
				if requests.fewer() {
					if n < 3 {
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

// TestMovesWhatItHasSeen has another client put a symbolic link in the place of a file or directory before each request of its move in
// turn: servers lose links that are renamed, and no link is moved.
func TestMovesWhatItHasSeen(t *testing.T) {
	srv := rigtest.StartPOSIX(t, "../..", rig.Config{Share: []string{"mangled names = no"}})
	path := configure(t, srv, map[string]string{"LINKS": "true", "CONNECTIONS": "1"})
	other := open(t, path)
	for name, change := range map[string]func(f *Fs, in string) error{
		"file": func(f *Fs, in string) error {
			o, err := f.NewObject(t.Context(), in+"a")
			if err == nil {
				_, err = f.Move(t.Context(), o, in+"b")
			}
			return err
		},
		"directory": func(f *Fs, in string) error { return f.DirMove(t.Context(), f, in+"a", in+"b") },
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t, path)
			requests := watchRequests(t, f)
			for n := int64(1); ; n++ {
				in := fmt.Sprintf("%s/%d/", name, n)
				if name == "file" {
					put(t, other, in+"a", "content")
				} else {
					must(t, other.Mkdir(t.Context(), in+"a"))
				}
				_, err := f.List(t.Context(), in) // the session exists
				must(t, err)
				linked := false
				requests.before(n, func() {
					err := other.DirMove(t.Context(), other, in+"a", in+"moved away")
					if o, lookErr := other.NewObject(t.Context(), in+"a"); lookErr == nil {
						_, err = other.Move(t.Context(), o, in+"moved away")
					}
					if err == nil {
						_, err = other.Put(t.Context(), strings.NewReader("target"), described(in+"a.rclonelink", 6))
					}
					linked = err == nil
				})
				err = change(f, in)
				if requests.fewer() {
					return
				}
				if o, lookErr := other.NewObject(t.Context(), in+"a.rclonelink"); linked && lookErr != nil {
					t.Errorf("before request %d: the link is not there: %v, %v; the move: %v", n, o, lookErr, err)
				}
			}
		})
	}
}

// TestMoveSetsItsFile moves a file and sets its time of modification, while another client replaces it before each request in turn. The other
// client's file keeps its time.
func TestMoveSetsItsFile(t *testing.T) {
	path, _ := remote(t, rig.Signed, map[string]string{"CONNECTIONS": "1"})
	other, f := open(t, path), open(t, path)
	requests := watchRequests(t, f)
	ctx, ci := fs.AddConfig(t.Context())
	set := time.Unix(1.2e9, 0)
	ci.Metadata, ci.MetadataSet = true, fs.Metadata{"mtime": set.Format(time.RFC3339)}
	for n := int64(1); ; n++ {
		in := fmt.Sprint(n, "/")
		put(t, other, in+"a", "content")
		put(t, other, in+"c", "precious")
		o, err := f.NewObject(ctx, in+"a")
		must(t, err)
		c, err := other.NewObject(ctx, in+"c")
		must(t, err)
		requests.before(n, func() { other.Move(t.Context(), c, in+"b") })
		moved, err := f.Move(ctx, o, in+"b")
		if requests.fewer() {
			if err != nil || !moved.ModTime(ctx).Equal(set) || n < 4 {
				t.Errorf("moved with %d requests: %v, %v", n-1, moved, err)
			}
			return
		}
		o, err = other.NewObject(ctx, in+"b")
		must(t, err)
		if want := map[int64]time.Time{7: set, 8: time.Unix(1e9, 0)}[o.Size()]; !o.ModTime(ctx).Equal(want) && (o.Size() == 8 || err == nil) {
			t.Errorf("before request %d: a file of %d bytes has time %v; the move: %v", n, o.Size(), o.ModTime(ctx), err)
		}
	}
}

// TestMoveKeepsChanges moves a file that another client has changed since rclone has looked at it: it keeps its time of modification, by which
// a later sync finds the change.
func TestMoveKeepsChanges(t *testing.T) {
	path, dir := remote(t, rig.Signed, map[string]string{"CONNECTIONS": "1"})
	other, f := open(t, path), open(t, path)
	for _, metadata := range []bool{false, true} {
		ctx, ci := fs.AddConfig(t.Context())
		ci.Metadata = metadata
		put(t, other, "a", "content")
		o, err := f.NewObject(ctx, "a")
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, "a"), []byte("changed"), 0o600))
		changed, err := other.NewObject(ctx, "a")
		must(t, err)
		moved, err := f.Move(ctx, o, "b")
		must(t, err)
		found, err := other.NewObject(ctx, "b")
		must(t, err)
		if want := changed.ModTime(ctx); !moved.ModTime(ctx).Equal(want) || !found.ModTime(ctx).Equal(want) {
			t.Errorf("metadata %v: time %v, and %v of the object; want %v", metadata, found.ModTime(ctx), moved.ModTime(ctx), want)
		}
	}
}

// TestPiecesOfOneFile reads a file in pieces, while another client gives its name to another file between them.
func TestPiecesOfOneFile(t *testing.T) {
	path, _ := remote(t, rig.Signed, map[string]string{"CONNECTIONS": "1"})
	other, f := open(t, path), open(t, path)
	put(t, other, "a", "0123456789")
	o, err := f.NewObject(t.Context(), "a")
	must(t, err)
	read := func(options ...fs.OpenOption) (string, error) {
		r, err := o.Open(t.Context(), options...)
		if err != nil {
			return "", err
		}
		b, err := io.ReadAll(r)
		return string(b), errors.Join(err, r.Close())
	}
	first, rest := &fs.RangeOption{Start: 0, End: 4}, &fs.RangeOption{Start: 5, End: -1}
	check := func(want string, options ...fs.OpenOption) {
		t.Helper()
		if got, err := read(options...); got != want || err != nil {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	check("01234", first)
	check("56789", rest)
	_, err = other.Move(t.Context(), put(t, other, "b", "abcdefghij"), "a")
	must(t, err)
	for _, piece := range []fs.OpenOption{first, rest, &fs.SeekOption{Offset: 5}} {
		if got, err := read(piece); !errors.Is(err, errAnother) {
			t.Errorf("of another file: %q, %v", got, err)
		}
	}
	check("abcdefghij")
	check("fghij", rest)
	if n := f.conns.inUse(); n != 0 {
		t.Errorf("%d leases", n)
	}
}

// TestLinkTimesAreOfTheLink makes symbolic links and sets their times, while another client puts a file in the place of the link before each
// request in turn. The file keeps its time.
func TestLinkTimesAreOfTheLink(t *testing.T) {
	srv := rigtest.StartPOSIX(t, "../..", rig.Config{Share: []string{"mangled names = no"}})
	path := configure(t, srv, map[string]string{"LINKS": "true", "CONNECTIONS": "1"})
	other := open(t, path)
	had, set := time.Unix(1e9, 0), time.Unix(1.2e9, 0)
	update := func(f *Fs, name string) error {
		_, err := f.Put(t.Context(), strings.NewReader("target"), object.NewStaticObjectInfo(name, set, 6, true, nil, nil))
		return err
	}
	withObject := func(change func(o *Object) error) func(f *Fs, name string) error {
		return func(f *Fs, name string) error {
			o, err := f.NewObject(t.Context(), name)
			if err == nil {
				err = change(o.(*Object))
			}
			return err
		}
	}
	for name, c := range map[string]struct {
		before string // the target of the link before; "": there is none
		change func(f *Fs, name string) error
	}{
		"a new link":     {"", update},
		"another target": {"old", update},
		"the same":       {"target", update},
		"SetModTime":     {"target", withObject(func(o *Object) error { return o.SetModTime(t.Context(), set) })},
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t, path)
			requests := watchRequests(t, f)
			for n := int64(1); ; n++ {
				in := fmt.Sprintf("%s/%d/", name, n)
				must(t, other.Mkdir(t.Context(), in))
				if c.before != "" {
					put(t, other, in+"a.rclonelink", c.before)
				}
				_, err := f.List(t.Context(), in) // the session exists
				must(t, err)
				requests.before(n, func() {
					if o, err := other.NewObject(t.Context(), in+"a.rclonelink"); err == nil && o.Remove(t.Context()) != nil {
						return // a link that is open keeps its name until it is closed
					}
					other.Put(t.Context(), strings.NewReader("file"), described(in+"a", 4))
				})
				err = c.change(f, in+"a.rclonelink")
				if requests.fewer() {
					o, lookErr := other.NewObject(t.Context(), in+"a.rclonelink")
					if err != nil || lookErr != nil || !o.ModTime(t.Context()).Equal(set) || o.Size() != 6 || n < 3 {
						t.Errorf("with %d requests: %v; the link: %v, %v", n-1, err, o, lookErr)
					}
					return
				}
				if o, lookErr := other.NewObject(t.Context(), in+"a"); lookErr == nil && !o.ModTime(t.Context()).Equal(had) {
					t.Errorf("before request %d: the other client's file has time %v; the change: %v", n, o.ModTime(t.Context()), err)
				}
			}
		})
	}
}
