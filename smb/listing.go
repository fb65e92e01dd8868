package smb

import (
	"context"
	"hash/maphash"
	"io"
	"io/fs"
	"iter"
	"slices"
	"strings"

	"github.com/tarn-go/tarn/smb/internal/conn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// listRoom is how many bytes of entries one QUERY_DIRECTORY requests.
const listRoom = 256 << 10

// maxBarren is how many replies without a name other than "." and ".." may follow each other. No limit counts these names.
const maxBarren = 2

// listing is an open directory listing that holds the entries of one reply at a time, and of two at its beginning. When its connection is
// lost it starts again on another, and skips the entries that it has returned.
type listing struct {
	h            *handle // of the directory
	limit        int     // of entries
	class        proto.DirClass
	t            *tree
	id           proto.FileID
	cl           *conn.Call // holds the reply that entries alias
	entries      proto.DirEntries
	ahead        []*conn.Call // replies behind that, which came with the one that opened the directory
	begun        bool
	ended        bool
	first        string        // the first name of the last reply
	barren       int           // replies since the last name other than "." and ".."
	leftOut      *leftOutError // the end of the listing if an entry was left out, until it is returned
	self, parent uint64        // ids of the entries "." and ".."; zero: not known

	seed     maphash.Seed
	returned []uint64            // hashes of the names returned, 8 bytes an entry
	skip     map[uint64]struct{} // after a loss: hashes of the names to skip
	budget   budget              // since the last new entry
}

func newListing(h *handle, class proto.DirClass) *listing {
	l := &listing{h: h, limit: h.m.s.cfg.Limits.MaxEntries, seed: maphash.MakeSeed(), class: class}
	switch {
	case h.grants.POSIX != nil:
		l.class = proto.FilePOSIXInformation
	case class == proto.FilePOSIXInformation, !h.grants.HasDiskID: // then the entries' ids are the only ones there are
		l.class = proto.FileIDBothDirectoryInformation
	}
	return l
}

// entryClass is the class of entries to request before the server has said whether it reports the id of the directory.
func (m *mount) entryClass() proto.DirClass {
	if m.s.cfg.EntryIDs || m.noDiskIDs.Load() {
		return proto.FileIDBothDirectoryInformation
	}
	return proto.FileDirectoryInformation
}

// next returns the next entry, "." and ".." left out; io.EOF ends it.
func (l *listing) next(ctx context.Context) (*info, error) {
	for {
		for l.entries.Next() {
			e := l.entries.Entry()
			name := proto.DecodeUTF16(e.Name)
			switch name {
			case ".":
				l.self = e.FileID
				continue
			case "..":
				l.parent = e.FileID
				continue
			}
			if !isEntryName(name) {
				fresh, err := l.count(name)
				if err != nil {
					l.freeReply()
					return nil, err
				}
				if fresh {
					l.leftOut = l.leftOut.and(name)
				}
				continue
			}
			if e.Attributes&proto.AttrReparsePoint != 0 && l.class == proto.FileDirectoryInformation {
				l.freeReply()
				l.widen()
				break
			}
			fresh, err := l.count(name)
			if err != nil {
				l.freeReply()
				return nil, err
			}
			if fresh {
				return entryInfo(l.t.m.s.cfg.Names.local(name), &e), nil
			}
		}
		if err := l.entries.Err(); err != nil {
			return nil, l.refuse(err)
		}
		l.freeReply()
		if !l.ended {
			err := l.fetch(ctx)
			l.ended = err == io.EOF
			if err == nil {
				continue
			}
			if err != io.EOF {
				return nil, err
			}
		}
		if err := l.leftOut; err != nil {
			l.leftOut = nil
			return nil, err
		}
		return nil, io.EOF
	}
}

// refuse ends the connection because of the reply that is being read, the rest of which is not used.
func (l *listing) refuse(err error) error {
	l.freeReply()
	return l.t.Malformed(err)
}

// widen restarts the listing with the class of entries that has reparse tags, without which the type of a reparse
// point is not known. Samba takes a third more time for that class, because it looks at the extended attributes
// of every file, and few directories have a reparse point.
func (l *listing) widen() {
	l.class = proto.FileIDBothDirectoryInformation
	l.begin()
}

// count records name and reports whether it is new. Names may repeat only after begin: a server that repeats
// itself could otherwise list for ever.
func (l *listing) count(name string) (fresh bool, err error) {
	l.barren = 0
	hash := maphash.String(l.seed, name)
	if _, again := l.skip[hash]; again {
		delete(l.skip, hash)
		return false, nil
	}
	if len(l.returned) == l.limit {
		return false, ErrTooMany
	}
	l.returned = append(l.returned, hash)
	l.budget.progress()
	return true, nil
}

func entryInfo(name string, e *proto.DirEntry) *info {
	i := &info{
		name: name, size: int64(e.EndOfFile), allocation: int64(e.Allocation),
		times: e.Times, attributes: e.Attributes, id: e.FileID, posix: e.POSIX,
	}
	if e.Attributes&proto.AttrReparsePoint != 0 {
		i.tag = e.ReparseTag
	}
	return i
}

// fetch requests more entries, on another connection when the one before was lost. io.EOF means that there
// are none.
func (l *listing) fetch(ctx context.Context) error {
	if len(l.ahead) > 0 {
		cl := l.ahead[0]
		switch cl.Status {
		case proto.StatusSuccess:
			l.ahead = l.ahead[1:]
			return l.take(cl)
		case proto.StatusNoMoreFiles, proto.StatusNoSuchFile:
			return io.EOF
		}
		l.freeAhead() // the request is repeated: its reply is the error
	}
	s := segment{dir: listingEntries, n: 1, listing: l}
	if err := l.h.issue(ctx, &l.budget, &s, conn.WaitForCredits); err != nil {
		return err
	}
	return l.h.complete(ctx, &l.budget, &s)
}

// start sends a QUERY_DIRECTORY for the next entries; on a new connection, for the first ones.
func (l *listing) start(ctx context.Context, t *tree, id proto.FileID, policy conn.CreditPolicy) (*conn.Call, error) {
	if t != l.t || id != l.id {
		if err := l.restart(t, id); err != nil {
			return nil, err
		}
	}
	var flags proto.QueryDirectoryFlags
	if !l.begun {
		flags = proto.QueryRestart
	}
	q := t.queryDirectory(id, l.class, flags, listRoom)
	if err := t.Start(ctx, q.Call, q.Request, policy); err != nil {
		return nil, err
	}
	return q.Call, nil
}

// queryDirectory is a QUERY_DIRECTORY for up to room bytes of entries.
func (t *tree) queryDirectory(id proto.FileID, class proto.DirClass, flags proto.QueryDirectoryFlags, room int) conn.Compounded {
	room = t.Affordable(min(room, t.Conn().Terms().MaxTransact))
	cl := t.Call(proto.CommandQueryDirectory)
	cl.Expect = room
	req := proto.QueryDirectoryRequest{Class: class, Flags: flags, FileID: id, Pattern: "*", Output: uint32(room)}
	return conn.Compounded{Call: cl, Request: &req, AnyStatus: true}
}

// restart starts the listing from the first entry, on another connection.
func (l *listing) restart(t *tree, id proto.FileID) error {
	if l.t != nil && !l.budget.countLoss(l.t) {
		return l.t.Err()
	}
	l.t, l.id = t, id
	if l.class == proto.FilePOSIXInformation && !t.posix { // another server may have taken the place of the one before
		l.class = proto.FileIDBothDirectoryInformation
	}
	l.begin()
	return nil
}

// begin makes the next request ask for the first entries; those that were returned are skipped.
func (l *listing) begin() {
	l.freeAhead()
	l.begun, l.first, l.barren = false, "", 0
	l.skip = make(map[uint64]struct{}, len(l.returned))
	for _, hash := range l.returned {
		l.skip[hash] = struct{}{}
	}
}

// finish waits for the QUERY_DIRECTORY cl, whose entries come next; io.EOF means that there are none.
func (l *listing) finish(ctx context.Context, cl *conn.Call) error {
	err := cl.Finish(ctx)
	if hasStatus(err, proto.StatusNoMoreFiles) || hasStatus(err, proto.StatusNoSuchFile) {
		return io.EOF
	}
	if err != nil {
		return err
	}
	return l.take(cl)
}

// take makes the entries of a reply the next ones.
func (l *listing) take(cl *conn.Call) error {
	l.begun = true
	if l.barren++; l.barren > maxBarren {
		return cl.Malformed(conn.ProtocolError("a listing without names and without an end"))
	}
	entries, err := proto.DecodeQueryDirectoryResponse(cl.Message(), l.class)
	if err != nil {
		return cl.Malformed(err)
	}
	if peek := entries; peek.Next() {
		e := peek.Entry()
		first := proto.DecodeUTF16(e.Name)
		if first == l.first {
			return cl.Malformed(conn.ProtocolError("a listing that repeats itself"))
		}
		l.first = first
	}
	l.cl, l.entries = cl, entries
	return nil
}

// freeReply frees the reply.
func (l *listing) freeReply() {
	if l.cl != nil {
		l.cl.Release()
	}
	l.cl, l.entries = nil, proto.DirEntries{}
}

// freeAhead frees the replies that came with the one that opened the directory.
func (l *listing) freeAhead() {
	for _, cl := range l.ahead {
		cl.Release()
	}
	l.ahead = nil
}

// listRequest opens a directory for a listing. It requests the directory's id, by which reopenDir recognises
// it.
func listRequest(remote string) *proto.CreateRequest {
	return &proto.CreateRequest{
		Contexts:    proto.CreateContexts{QueryOnDiskID: true},
		Access:      proto.AccessReadData | proto.AccessReadAttributes | proto.AccessSynchronize,
		Share:       proto.ShareAll,
		Disposition: proto.DispositionOpen,
		Options:     proto.OptionDirectory,
		Name:        remote,
	}
}

// ReadDir reads all of the named directory, sorted by name. When it has more entries than Limits.MaxEntries,
// or more bytes than Limits.MaxListing, the error matches ErrTooMany. After an error it returns the entries that it has read. A name that is a path
// is left out: ReadDir then returns the others and an error that matches ErrName.
func (s *Share) ReadDir(name string) ([]fs.DirEntry, error) {
	return s.readDir(name, new(heldBytes), enterAny)
}

// DirID identifies a directory on its server. The zero DirID means that the server does not report ids. Volume is 0 where it reports ids
// in listings alone.
type DirID struct{ File, Volume uint64 }

// ReadDirID is ReadDir, and also returns the id of the directory. Programs that walk trees keep the ids of the directories above the one
// that they read, to detect one that contains itself ([ErrLoop]), as [Share.WalkDir] does.
func (s *Share) ReadDirID(name string) ([]fs.DirEntry, DirID, error) {
	var l *listing
	list, err := s.readDir(name, new(heldBytes), func(of *listing) error {
		l = of
		return nil
	})
	if l == nil {
		return list, DirID{}, err
	}
	return list, l.dirID(), err
}

// dirID is the id that the server reported when it opened the directory, or else that of the entry ".".
func (l *listing) dirID() DirID {
	if g := &l.h.grants; g.HasDiskID {
		return DirID{g.DiskFileID, g.VolumeID}
	}
	return DirID{File: l.self}
}

// entryCost is how many bytes an entry that is held counts for, besides its name: those of its values, of the slice that has them, and
// of the hash by which a listing knows it again.
const entryCost = 128

// heldBytes counts the bytes of entries that one call holds.
type heldBytes struct{ n int }

// add counts an entry, and fails when it is one too many.
func (h *heldBytes) add(s *Session, name string) error {
	if h.n += entryCost + len(name); h.n > s.cfg.Limits.MaxListing {
		return ErrTooMany
	}
	return nil
}

// readDir is ReadDir of a directory unless enter returns an error for it.
func (s *Share) readDir(name string, held *heldBytes, enter func(*listing) error) ([]fs.DirEntry, error) {
	var list []fs.DirEntry
	var failed error
	for e, err := range s.entries(name, enter) {
		if err == nil {
			err = pathError("readdir", name, held.add(s.m.s, e.Name()))
		}
		if failed = err; err != nil {
			break
		}
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, failed
}

func enterAny(*listing) error { return nil }

// Entries iterates over the named directory in the server's order. It holds two replies at most, whatever the
// directory's size, and 8 bytes for each entry returned. When the connection is lost, the listing continues
// on the next one without repeating an entry. An error ends the sequence, with a nil entry;
// if a name is a path, it comes after all other entries and matches ErrName. Info of an entry
// sends no request; its FileStat.FileID is zero unless Dialer.EntryIDs is set.
func (s *Share) Entries(name string) iter.Seq2[fs.DirEntry, error] { return s.entries(name, enterAny) }

// entries is Entries of a directory unless enter returns an error for it.
func (s *Share) entries(name string, enter func(*listing) error) iter.Seq2[fs.DirEntry, error] {
	return func(yield func(fs.DirEntry, error) bool) {
		ctx, cancel := s.m.s.bounded(s.ctx)
		defer cancel()
		l, err := s.openListing(ctx, name)
		if err != nil {
			yield(nil, pathError("readdir", name, err))
			return
		}
		defer l.end(ctx)
		if err := enter(l); err != nil {
			yield(nil, pathError("readdir", name, err))
			return
		}
		for {
			e, err := l.next(ctx)
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(nil, pathError("readdir", name, err))
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// end closes the directory, and frees what the listing holds.
func (l *listing) end(ctx context.Context) {
	l.freeAhead()
	l.freeReply()
	ctx, cancel := l.h.m.s.closing(ctx)
	defer cancel()
	l.h.close(ctx)
}

// openListing opens a directory for a listing.
func (s *Share) openListing(ctx context.Context, name string) (l *listing, err error) {
	err = s.runIn(ctx, operation{kind: opList, name: name, do: func(ctx context.Context, t view, remote string) error {
		l, err = s.openListingOn(ctx, t, name, listRequest(remote), t.entryClass(t.m.entryClass()))
		return err
	}})
	return l, err
}

// openListingOn opens a directory and requests its first entries, and those behind, in one frame. Where the server does not grant the
// credits for that, it only opens the directory.
func (s *Share) openListingOn(ctx context.Context, t view, name string, create *proto.CreateRequest, class proto.DirClass) (*listing, error) {
	frame := []conn.Compounded{
		{}, // the CREATE
		t.queryDirectory(proto.RelatedFileID(), class, proto.QueryRestart, listRoom),
		t.queryDirectory(proto.RelatedFileID(), class, 0, smallIO), // most directories have no more, and this reply says so
	}
	r, together, err := t.create(ctx, create, frame)
	if err != nil {
		return nil, err
	}
	h := newHandle(t.tree, name, create.Name, &r)
	h.snapshot = create.Contexts.Timewarp
	l := newListing(h, class)
	if !together {
		return l, nil
	}
	l.t, l.id = t.tree, h.id
	l.ahead = []*conn.Call{frame[1].Call, frame[2].Call}
	if class != l.class { // class has too little
		t.m.noDiskIDs.Store(true)
		l.freeAhead()
	}
	return l, nil
}
