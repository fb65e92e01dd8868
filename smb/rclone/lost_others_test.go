package rclone

import (
	"context"
	"errors"
	iofs "io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarn-go/tarn/smb"
)

// losing is a connection that is lost instead of the next answer when isMade has become true.
type losing struct {
	net.Conn
	isMade func() bool
}

func (c *losing) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.isMade() {
		c.Conn.Close()
		return 0, syscall.ECONNRESET
	}
	return n, err
}

// TestOthersAfterLosses loses the answer to a change that was made. Before the client looks, another client makes or removes what has one
// of the names. What the other has made stays as it is, and the call fails where it cannot be known whether its change was made.
func TestOthersAfterLosses(t *testing.T) {
	f, srv, root := newRemote(t, map[string]string{"CONNECTIONS": "1"})
	other := open(t, "tarnrig:"+srv.Share+"/dir")

	write := func(name, content string) error {
		_, err := other.Put(t.Context(), strings.NewReader(content), described(name, int64(len(content))))
		return err
	}
	move := func(f *Fs, from, to string) error {
		o, err := f.NewObject(t.Context(), from)
		if err == nil {
			_, err = f.Move(t.Context(), o, to)
		}
		return err
	}
	moveDir := func(f *Fs, from, to string) error { return f.DirMove(t.Context(), f, from, to) }
	remove := func(f *Fs, name string) error {
		o, err := f.NewObject(t.Context(), name)
		if err == nil {
			err = o.Remove(t.Context())
		}
		return err
	}
	type outcome string
	const (
		succeeds outcome = "succeeds"
		fails    outcome = "fails"   // with ErrConnLost
		refused  outcome = "refused" // with another error
		either   outcome = "either"  // as the file system gives the other's file the id of the one that was removed, or not
	)
	for _, c := range []struct {
		name      string
		before    string // files, whose content is their name; directories end with a slash
		change    func(in string) error
		gone      string // what is not there when the change is made
		meanwhile func(in string)
		then      string // files, each with its content, and directories without entries
		outcome   outcome
	}{
		{"purge, directory renamed", "d/x d/y other/z", func(in string) error { return f.Purge(t.Context(), in+"d") }, "d",
			func(in string) { must(t, moveDir(other, in+"other", in+"d")) }, "d/z=other/z", succeeds},
		{"purge, directory made", "d/x d/y", func(in string) error { return f.Purge(t.Context(), in+"d") }, "d",
			func(in string) { must(t, write(in+"d/z", "z")) }, "d/z=z", either},
		{"rmdir, directory renamed", "d/ other/", func(in string) error { return f.Rmdir(t.Context(), in+"d") }, "d",
			func(in string) { must(t, moveDir(other, in+"other", in+"d")) }, "d/", succeeds},
		{"rmdir, directory made", "d/", func(in string) error { return f.Rmdir(t.Context(), in+"d") }, "d",
			func(in string) { must(t, other.Mkdir(t.Context(), in+"d")) }, "d/", either},
		{"remove, file renamed", "a other", func(in string) error { return remove(f, in+"a") }, "a",
			func(in string) { must(t, move(other, in+"other", in+"a")) }, "a=other", succeeds},
		{"remove, file made", "a", func(in string) error { return remove(f, in+"a") }, "a",
			func(in string) { must(t, write(in+"a", "new")) }, "a=new", either},
		{"move, file made", "a", func(in string) error { return move(f, in+"a", in+"b") }, "a",
			func(in string) { must(t, write(in+"a", "new")) }, "a=new b=a", succeeds},
		{"move onto a file, file made", "a b", func(in string) error { return move(f, in+"a", in+"b") }, "a",
			func(in string) { must(t, write(in+"a", "new")) }, "a=new b=a", succeeds},
		{"move, target replaced", "a other", func(in string) error { return move(f, in+"a", in+"b") }, "a",
			func(in string) { must(t, move(other, in+"other", in+"b")) }, "b=other", fails},
		{"move, target removed", "a", func(in string) error { return move(f, in+"a", in+"b") }, "a",
			func(in string) { must(t, remove(other, in+"b")) }, "", fails},
		{"move, moved back", "a", func(in string) error { return move(f, in+"a", in+"b") }, "a",
			func(in string) { must(t, move(other, in+"b", in+"a")) }, "b=a", succeeds},
		{"move, target moved and file made", "a", func(in string) error { return move(f, in+"a", in+"b") }, "a",
			func(in string) {
				must(t, move(other, in+"b", in+"c"))
				must(t, write(in+"a", "new"))
			}, "a=new c=a", fails},
		{"move directory, directory made", "d/x", func(in string) error { return moveDir(f, in+"d", in+"e") }, "d",
			func(in string) { must(t, write(in+"d/z", "z")) }, "d/z=z e/x=d/x", succeeds},
		{"move directory, target removed", "d/x", func(in string) error { return moveDir(f, in+"d", in+"e") }, "d",
			func(in string) { must(t, other.Purge(t.Context(), in+"e")) }, "", fails},
		{"mkdir, removed", "", func(in string) error { return f.Mkdir(t.Context(), in+"d") }, "",
			func(in string) { must(t, other.Rmdir(t.Context(), in+"d")) }, "d/", succeeds},
		{"mkdir, file made", "", func(in string) error { return f.Mkdir(t.Context(), in+"d") }, "",
			func(in string) {
				must(t, other.Rmdir(t.Context(), in+"d"))
				must(t, write(in+"d", "new"))
			}, "d=new", refused},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := strings.ReplaceAll(c.name, " ", "-") + "/"
			must(t, other.Mkdir(t.Context(), in))
			for _, name := range strings.Fields(c.before) {
				if dir, ok := strings.CutSuffix(name, "/"); ok {
					must(t, other.Mkdir(t.Context(), in+dir))
				} else {
					put(t, other, in+name, name)
				}
			}
			lost, met := false, false // once
			f.conns.close()
			f.conns.dialer.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if lost && !met {
					met = true
					c.meanwhile(in)
				}
				nc, err := new(net.Dialer).DialContext(ctx, network, addr)
				if err != nil || lost {
					return nc, err
				}
				return &losing{nc, func() bool {
					if c.gone == "" {
						_, err := os.Lstat(filepath.Join(root, in, "d"))
						lost = err == nil
					} else {
						_, err := os.Lstat(filepath.Join(root, in, c.gone))
						lost = errors.Is(err, iofs.ErrNotExist)
					}
					return lost
				}}, nil
			}
			err := c.change(in)
			if !lost {
				t.Fatalf("nothing was lost; %v", err)
			}
			allowed := map[outcome]bool{succeeds: err == nil, fails: errors.Is(err, smb.ErrConnLost), refused: err != nil && !errors.Is(err, smb.ErrConnLost)}
			allowed[either] = allowed[succeeds] || allowed[fails]
			if !allowed[c.outcome] {
				t.Errorf("%v: %v", c.outcome, err)
			}
			if got := tree(t, filepath.Join(root, in)); got != c.then {
				t.Errorf("there is %q", got)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// tree lists the files below dir, each with its content, and the directories without entries.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(name string, d iofs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		if d.IsDir() {
			entries, err := os.ReadDir(name)
			if len(entries) == 0 && rel != "." {
				found = append(found, rel+"/")
			}
			return err
		}
		b, err := os.ReadFile(name)
		found = append(found, rel+"="+string(b))
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return strings.Join(found, " ")
}

// TestSettle has a change fail in each way.
func TestSettle(t *testing.T) {
	lost, unlike, unknown := error(smb.ErrConnLost), errors.New("refused"), errors.New("unknown")
	for _, c := range []struct {
		name    string
		changes []error // of each attempt
		looks   []any   // bool or error, after each loss
		want    error
	}{
		{"succeeds", []error{nil}, nil, nil},
		{"refused", []error{unlike}, nil, unlike},
		{"made", []error{lost}, []any{true}, nil},
		{"not made, repeated", []error{lost, nil}, []any{false}, nil},
		{"not made, refused", []error{lost, unlike}, []any{false}, unlike},
		{"not known", []error{lost}, []any{unknown}, lost},
		{"does not exist, and not known", []error{lost}, []any{iofs.ErrNotExist}, lost},
		{"lost each time", []error{lost, lost, lost, lost}, []any{false, false, false}, lost},
		{"made at the last attempt", []error{lost, lost, lost}, []any{false, false, true}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := settle(func() error {
				err := c.changes[0]
				c.changes = c.changes[1:]
				return err
			}, func() (bool, error) {
				answer := c.looks[0]
				c.looks = c.looks[1:]
				if err, ok := answer.(error); ok {
					return false, err
				}
				return answer.(bool), nil
			})
			if c.want == nil && err != nil || !errors.Is(err, c.want) || errors.Is(err, iofs.ErrNotExist) {
				t.Errorf("%v", err)
			}
			if len(c.changes)+len(c.looks) > 0 {
				t.Errorf("left: %v, %v", c.changes, c.looks)
			}
		})
	}
}

// description is a file as a server describes it.
type description struct {
	iofs.FileInfo
	dir  iofs.FileMode
	size int64
	time time.Time
	stat smb.FileStat
}

func (d description) IsDir() bool        { return d.dir != 0 }
func (d description) Size() int64        { return d.size }
func (d description) ModTime() time.Time { return d.time }
func (d description) Sys() any           { return &d.stat }

// TestIdentity has what is known of a file after a loss.
func TestIdentity(t *testing.T) {
	now, later := time.Unix(1e9, 0), time.Unix(1e9+1, 0)
	file := func(id uint64, created time.Time, size int64, modified time.Time) description {
		return description{size: size, time: modified, stat: smb.FileStat{FileID: id, CreationTime: created}}
	}
	dir := file(0, now, 1, now)
	dir.dir = iofs.ModeDir
	before := file(7, now, 1, now)
	for _, c := range []struct {
		name          string
		before, after description
		same          bool // for a change of the name
		removed       any  // bool or error
	}{
		{"itself", before, before, true, false},
		{"itself, changed", before, file(7, now, 2, later), true, false},
		{"another id", before, file(8, now, 1, now), false, true},
		{"the id of what was removed", before, file(7, later, 1, now), true, errAnother},
		{"no id before", file(0, now, 1, now), before, true, false},
		{"no id after, changed", before, file(0, now, 1, later), false, errAnother},
		{"no ids", file(0, now, 1, now), file(0, now, 1, now), true, false},
		{"no ids, another size", file(0, now, 1, now), file(0, now, 2, now), false, errAnother},
		{"no ids, another time", file(0, now, 1, now), file(0, now, 1, later), false, errAnother},
		{"no ids, a directory", file(0, now, 1, now), dir, false, errAnother},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := sameFile(c.before, c.after); got != c.same {
				t.Error(got)
			}
			gone, err := isRemoved(func(string) (iofs.FileInfo, error) { return c.after, nil }, c.before, "a")
			if want, _ := c.removed.(bool); gone != want {
				t.Errorf("removed %v", gone)
			}
			if want, _ := c.removed.(error); err != want {
				t.Error(err)
			}
		})
	}
}
