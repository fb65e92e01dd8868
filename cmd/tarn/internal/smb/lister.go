package smb

import (
	"io/fs"

	client "github.com/tarn-go/tarn/smb"
)

// listings is what a directory has at both ends.
type listings struct {
	entries  []fs.DirEntry // of the source
	err      error
	id       client.DirID           // of the source
	old      fs.FileInfo            // what has the target's name
	there    map[string]fs.FileInfo // what the target has, if old is a directory
	thereErr error
}

func listBoth(r route, old fs.FileInfo) (l listings) {
	l.old = old
	if from, ok := r.from.(*remote); ok {
		l.entries, l.id, l.err = from.share.ReadDirID(from.full(r.fromName))
	} else {
		l.entries, l.err = r.from.ReadDir(r.fromName)
	}
	if old != nil && old.IsDir() {
		l.there, l.thereErr = list(r.to, r.toName)
	}
	return l
}

// listedAhead is how many directories of one directory are listed at a time.
const listedAhead = 8

// lister lists the directories of a directory ahead of their turn: with a server, each takes round trips.
type lister struct {
	in    route
	there map[string]fs.FileInfo
	dirs  []string                 // those that are to be listed
	begun map[string]chan listings // those that are being listed, or were
}

func newLister(in route, entries []fs.DirEntry, there map[string]fs.FileInfo) *lister {
	l := &lister{in: in, there: there, begun: map[string]chan listings{}}
	for _, e := range entries {
		if e.IsDir() {
			l.dirs = append(l.dirs, e.Name())
		}
	}
	l.begin()
	return l
}

func (l *lister) begin() {
	for len(l.dirs) > 0 && len(l.begun) < listedAhead {
		name, done := l.dirs[0], make(chan listings, 1)
		l.dirs, l.begun[name] = l.dirs[1:], done
		r, old := l.in.entry(name), l.there[name]
		go func() { done <- listBoth(r, old) }()
	}
}

// of returns the listings of the next directory, which is called name.
func (l *lister) of(name string) listings {
	got := <-l.begun[name]
	delete(l.begun, name)
	l.begin()
	return got
}

// wait waits for what is being listed.
func (l *lister) wait() {
	for _, done := range l.begun {
		<-done
	}
}
