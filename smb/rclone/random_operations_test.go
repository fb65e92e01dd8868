//go:build unix

package rclone

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rclone/rclone/fs"
	"github.com/rclone/rclone/fs/accounting"
	"github.com/rclone/rclone/fs/operations"
	rsync "github.com/rclone/rclone/fs/sync"
	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
)

// TestRandomOperations makes random operations of rclone's while connections are reset after random numbers of bytes. Whatever an
// operation reports, each name has its old content or its new one, in whole, and what the operation does not name stays. An operation that
// reports success was carried out.
func TestRandomOperations(t *testing.T) {
	level := fs.GetConfig(context.Background()).LogLevel
	fs.GetConfig(context.Background()).LogLevel = fs.LogLevelEmergency
	t.Cleanup(func() { fs.GetConfig(context.Background()).LogLevel = level })
	rounds := 40
	switch {
	case os.Getenv("TARN_LONG") == "1":
		rounds = 1000
	case testing.Short():
		rounds = 10
	}
	for _, c := range []struct {
		options map[string]string
		posix   bool // a server with the POSIX extensions
	}{
		{map[string]string{"ALLOW_UNSIGNED": "true"}, false},
		{map[string]string{"ALLOW_UNSIGNED": "true", "LINKS": "true"}, true},
		{map[string]string{"ALLOW_UNSIGNED": "true", "LINKS": "true", "POSIX": "true"}, true},
	} {
		for _, mode := range rig.Modes() {
			name := mode.Name()
			for _, option := range []string{"LINKS", "POSIX"} {
				if c.options[option] != "" {
					name += " " + strings.ToLower(option)
				}
			}
			t.Run(name, func(t *testing.T) {
				var srv *rig.Server
				if c.posix {
					srv = rigtest.StartPOSIX(t, "../..", rig.Config{Mode: mode, Share: []string{"mangled names = no"}})
				} else {
					srv = rigtest.Start(t, rig.Config{Mode: mode})
				}
				a := newAttack(t, configure(t, srv, c.options), srv, c.options["LINKS"] != "")
				for range rounds {
					if a.round(); t.Failed() {
						return
					}
				}
			})
		}
	}
}

// contents are what the files of a tree contain, by name. Symbolic links have names that end in linkSuffix.
type contents map[string]string

// attack makes operations on a remote, and knows what is there.
type attack struct {
	t      *testing.T
	rnd    *rand.Rand
	there  *Fs // through links that are cut
	direct *Fs
	links  bool
	dir    string // of local files
	has    contents
	at     time.Time // of the next local file
	done   []string

	mu     sync.Mutex
	relay  *faultnet.Listener
	cuts   int // connections that are still cut in this round
	cutRnd *rand.Rand
}

func newAttack(t *testing.T, path string, srv *rig.Server, links bool) *attack {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	a := &attack{t: t, rnd: rand.New(rand.NewPCG(seed, 1)), cutRnd: rand.New(rand.NewPCG(seed, 2)), links: links, at: time.Unix(1e9, 0),
		dir: t.TempDir(), has: contents{}, relay: rigtest.Relay(t, srv.Addr)}
	a.direct, a.there = open(t, path+"/tree"), open(t, path+"/tree")
	a.there.conns.close()
	a.there.conns.dialer.DialFunc = a.relay.Dial
	a.relay.Faults(func(l *faultnet.Link) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.cut(l)
	})
	must(t, a.direct.Mkdir(t.Context(), ""))
	return a
}

// cut has a link end after a random number of bytes, if more are to be cut in this round.
func (a *attack) cut(l *faultnet.Link) {
	if a.cuts == 0 {
		return
	}
	a.cuts--
	flow, most := l.ToClient, int64(6000)
	if a.cutRnd.IntN(2) == 0 {
		flow, most = l.ToServer, 20_000
	}
	if a.cutRnd.IntN(4) == 0 {
		most = 1 << 20
	}
	how := faultnet.RST
	if a.cutRnd.IntN(2) == 0 {
		how = faultnet.FIN
	}
	flow.CutAfter(flow.Passed()+a.cutRnd.Int64N(most), how)
}

// disturb has the connections cut that exist, and n at most; 0 ends it.
func (a *attack) disturb(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cuts = n
	a.relay.Each(func(l *faultnet.Link) {
		if n == 0 {
			l.ToClient.CutAfter(1<<50, faultnet.RST)
			l.ToServer.CutAfter(1<<50, faultnet.RST)
		} else {
			a.cut(l)
		}
	})
}

// name is that of a file in one of few directories.
func (a *attack) name() string {
	return []string{"", "d/", "e/", "d/f/"}[a.rnd.IntN(4)] + string(rune('u'+a.rnd.IntN(4)))
}

// existing is the name of a file that is there, or "".
func (a *attack) existing() string {
	if len(a.has) == 0 {
		return ""
	}
	return slices.Sorted(maps.Keys(a.has))[a.rnd.IntN(len(a.has))]
}

// content is new content of random length.
func (a *attack) content() string {
	size := []int{0, 20, 5000, 70_000, 300_000, 1_200_000}[a.rnd.IntN(6)]
	head := fmt.Sprint(a.rnd.Uint64(), " ")
	return head[:min(size, len(head))] + strings.Repeat(string(rune('a'+a.rnd.IntN(26))), max(0, size-len(head)))
}

// local is a new directory with files, as rclone's remote.
func (a *attack) local(files contents) fs.Fs {
	dir, err := os.MkdirTemp(a.dir, "")
	must(a.t, err)
	for name, content := range files {
		a.at = a.at.Add(time.Second)
		name = filepath.Join(dir, name)
		must(a.t, os.MkdirAll(filepath.Dir(name), 0o755))
		if link, ok := strings.CutSuffix(name, linkSuffix); ok && a.links {
			must(a.t, os.Symlink(content, link))
			continue
		}
		must(a.t, os.WriteFile(name, []byte(content), 0o644))
		must(a.t, os.Chtimes(name, a.at, a.at))
	}
	remote := dir
	if a.links {
		remote = ":local,links=true:" + dir
	}
	f, err := fs.NewFs(a.t.Context(), remote)
	must(a.t, err)
	return f
}

// read returns what is there, by a connection that is not disturbed. Files that rclone was uploading are removed.
func (a *attack) read() contents {
	all := contents{}
	var list func(dir string)
	list = func(dir string) {
		entries, err := a.direct.List(a.t.Context(), dir)
		must(a.t, err)
		for _, e := range entries {
			o, ok := e.(*Object)
			if !ok {
				list(e.Remote())
				continue
			}
			if strings.HasSuffix(o.Remote(), ".partial") {
				must(a.t, o.Remove(a.t.Context()))
				continue
			}
			r, err := o.Open(a.t.Context())
			if err != nil {
				a.t.Errorf("%s: %v", o.Remote(), err)
				continue
			}
			b, err := io.ReadAll(r)
			r.Close()
			must(a.t, err)
			all[o.Remote()] = string(b)
		}
	}
	list("")
	return all
}

// outcome is what one name may have after an operation.
type outcome struct {
	wants   string // content
	gone    bool   // wants nothing
	partial bool   // after a failure it may have a part of wants
	missing bool   // after a failure it may have nothing, as another name has the content
}

// operation is what is done, and the names that it changes.
type operation struct {
	what    string
	run     func(ctx context.Context) error
	changes map[string]outcome
}

// round makes one operation and compares what is there.
func (a *attack) round() {
	op := a.choose()
	ctx, ci := fs.AddConfig(accounting.WithStatsGroup(a.t.Context(), fmt.Sprint(a.t.Name(), len(a.done))))
	ci.LowLevelRetries = []int{1, 10}[a.rnd.IntN(2)]
	ci.MultiThreadCutoff, ci.MultiThreadChunkSize = 1<<20, 256<<10
	ci.Inplace = strings.HasPrefix(op.what, "inplace")
	cuts := max(0, a.rnd.IntN(9)-3)
	a.done = append(a.done, fmt.Sprintf("%s, %d cuts", op.what, cuts))
	a.disturb(cuts)
	err := op.run(ctx)
	a.disturb(0)
	a.done[len(a.done)-1] += fmt.Sprintf(": %v", err)
	a.check(op, err)
	if a.t.Failed() {
		a.t.Logf("the last operations:\n%s", strings.Join(a.done[max(0, len(a.done)-6):], "\n"))
	}
}

func (a *attack) check(op operation, err error) {
	now := a.read()
	names := map[string]bool{}
	for _, m := range []contents{a.has, now} {
		for name := range m {
			names[name] = true
		}
	}
	for name := range op.changes {
		names[name] = true
	}
	for name := range names {
		old, was := a.has[name]
		got, is := now[name]
		o, changes := op.changes[name]
		wanted := is && got == o.wants && !o.gone || !is && o.gone
		switch {
		case changes && wanted:
		case err != nil && changes && o.partial && strings.HasPrefix(o.wants, got):
		case err != nil && changes && o.missing && !is:
		case (err != nil || !changes) && was == is && got == old:
		default:
			a.t.Errorf("%s, error %v: %s has %s (%t), had %s (%t), changes %t to %s (%t)", op.what, err, name, brief(got), is, brief(old), was, changes, brief(o.wants), !o.gone)
		}
	}
	a.has = now
}

func brief(s string) string { return fmt.Sprintf("%d bytes %.24q", len(s), s) }

// choose chooses an operation.
func (a *attack) choose() operation {
	for {
		if op := a.try(a.rnd.IntN(10)); op.run != nil {
			return op
		}
	}
}

// try is an operation of a kind, or none if it cannot be made now.
func (a *attack) try(kind int) operation {
	name, content := a.name(), a.content()
	if _, link := a.has[name+linkSuffix]; link {
		return operation{}
	}
	from := a.existing()
	switch kind {
	case 0, 1:
		what := []string{"put", "inplace put"}[kind]
		src := a.local(contents{"file": content})
		return operation{fmt.Sprintf("%s of %d bytes to %s", what, len(content), name), func(ctx context.Context) error {
			return operations.CopyFile(ctx, a.there, src, name, "file")
		}, map[string]outcome{name: {wants: content, partial: kind == 1}}}
	case 2:
		if from == "" || from == name || strings.HasSuffix(from, linkSuffix) {
			return operation{}
		}
		return operation{fmt.Sprintf("copy of %s to %s", from, name), func(ctx context.Context) error {
			return operations.CopyFile(ctx, a.there, a.there, name, from)
		}, map[string]outcome{name: {wants: a.has[from]}}}
	case 3:
		if from == "" || from == name || strings.HasSuffix(from, linkSuffix) {
			return operation{}
		}
		return operation{fmt.Sprintf("move of %s to %s", from, name), func(ctx context.Context) error {
			return operations.MoveFile(ctx, a.there, a.there, name, from)
		}, map[string]outcome{name: {wants: a.has[from], missing: true}, from: {gone: true}}} // rclone removes the target first
	case 4:
		if from == "" {
			return operation{}
		}
		return operation{"removal of " + from, func(ctx context.Context) error {
			o, err := a.there.NewObject(ctx, from)
			if err == nil {
				err = operations.DeleteFile(ctx, o)
			}
			return err
		}, map[string]outcome{from: {gone: true}}}
	case 5:
		if !a.links || a.has[name] != "" {
			return operation{}
		}
		if _, ok := a.has[name]; ok {
			return operation{}
		}
		target := []string{"u", "d", "../u", "missing", "d/f/x"}[a.rnd.IntN(5)]
		src := a.local(contents{"file" + linkSuffix: target})
		return operation{fmt.Sprintf("link %s to %s", name, target), func(ctx context.Context) error {
			return operations.CopyFile(ctx, a.there, src, name+linkSuffix, "file"+linkSuffix)
		}, map[string]outcome{name + linkSuffix: {wants: target}}}
	case 6:
		changes := map[string]outcome{}
		for file, content := range a.has {
			if rest, ok := strings.CutPrefix(file, "d/"); ok {
				changes[file], changes["moved/"+rest] = outcome{gone: true}, outcome{wants: content}
			}
		}
		if len(changes) == 0 {
			return operation{}
		}
		for file := range a.has {
			if strings.HasPrefix(file, "moved/") {
				return operation{"purge of moved", func(ctx context.Context) error { return operations.Purge(ctx, a.there, "moved") }, a.below("moved/")}
			}
		}
		return operation{"move of directory d", func(ctx context.Context) error {
			a.there.Rmdir(ctx, "moved")
			return operations.DirMove(ctx, a.there, "d", "moved")
		}, changes}
	}
	return a.sync()
}

// below has what is below a directory removed.
func (a *attack) below(dir string) map[string]outcome {
	changes := map[string]outcome{}
	for file := range a.has {
		if strings.HasPrefix(file, dir) {
			changes[file] = outcome{gone: true}
		}
	}
	return changes
}

// sync makes the tree equal to another one, in which files have become links, and links files.
func (a *attack) sync() operation {
	want := contents{}
	for range 2 + a.rnd.IntN(8) {
		want[a.name()] = a.content()
	}
	for name := range maps.Clone(want) {
		if a.links && a.rnd.IntN(4) == 0 {
			delete(want, name)
			want[name+linkSuffix] = "missing"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.has)) { // files take the place of links
		if link, ok := strings.CutSuffix(name, linkSuffix); ok && a.rnd.IntN(2) == 0 {
			delete(want, name)
			want[link] = a.content()
		}
	}
	changes := map[string]outcome{}
	for name := range a.has {
		changes[name] = outcome{gone: true}
	}
	for name, content := range want {
		_, had := a.has[name]
		changes[name] = outcome{wants: content, missing: !had}
	}
	src := a.local(want)
	return operation{fmt.Sprintf("sync with %v", slices.Sorted(maps.Keys(want))), func(ctx context.Context) error {
		err := rsync.Sync(ctx, a.there, src, false)
		if err == nil && accounting.Stats(ctx).Errored() {
			err = errors.New("there were errors")
		}
		return err
	}, changes}
}
