package smb

import (
	"context"
	"io"
	"io/fs"
	"iter"
	"slices"
	"strings"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

// listRoom is how many bytes of entries one QUERY_DIRECTORY asks for.
const listRoom = 256 << 10

// listing is a directory being read: one reply's worth of entries at a time.
type listing struct {
	t       *tree
	id      proto.FileID
	cl      *call // whose reply entries alias
	entries proto.DirEntries
	begun   bool
	ended   bool
}

// next returns the next entry, "." and ".." left out; io.EOF ends it.
func (l *listing) next(ctx context.Context) (*info, error) {
	for {
		for l.entries.Next() {
			e := l.entries.Entry()
			name := proto.DecodeUTF16(e.Name)
			if name == "." || name == ".." {
				continue
			}
			// A name that leads elsewhere is an attack on whoever joins it to a path.
			if name == "" || strings.ContainsAny(name, "/\\\x00") {
				return nil, l.t.malformed(protocolError("directory entry with a path for a name"))
			}
			return entryInfo(name, &e), nil
		}
		if err := l.entries.Err(); err != nil {
			return nil, l.t.malformed(err)
		}
		l.drop()
		if l.ended {
			return nil, io.EOF
		}
		if err := l.fetch(ctx); err != nil {
			return nil, err
		}
	}
}

func entryInfo(name string, e *proto.DirEntry) *info {
	i := &info{FileStat{
		FileName:       name,
		EndOfFile:      int64(e.EndOfFile),
		AllocationSize: int64(e.Allocation),
		CreationTime:   e.Times.Creation.Time(),
		LastAccessTime: e.Times.LastAccess.Time(),
		LastWriteTime:  e.Times.LastWrite.Time(),
		ChangeTime:     e.Times.Change.Time(),
		FileAttributes: uint32(e.Attributes),
		FileID:         e.FileID,
	}}
	if e.Attributes&proto.AttrReparsePoint != 0 {
		i.st.ReparseTag = e.ReparseTag
	}
	return i
}

// fetch asks for more entries.
func (l *listing) fetch(ctx context.Context) error {
	room := min(listRoom, l.t.c.agreed.maxTransact)
	if l.t.c.charged(room) > l.t.c.credits.total() {
		room = min(room, 65536)
	}
	cl := l.t.call(proto.CommandQueryDirectory)
	cl.expect = room
	req := proto.QueryDirectoryRequest{
		Class: proto.FileIDBothDirectoryInformation, FileID: l.id, Pattern: "*", Output: uint32(room),
	}
	if !l.begun {
		req.Flags = proto.QueryRestart
	}
	err := l.t.roundTrip(ctx, cl, &req)
	if hasStatus(err, proto.StatusNoMoreFiles) || hasStatus(err, proto.StatusNoSuchFile) {
		l.begun, l.ended = true, true
		return nil
	}
	if err != nil {
		return err
	}
	l.begun = true
	entries, err := proto.DecodeQueryDirectoryResponse(cl.message())
	if err != nil {
		cl.release()
		return l.t.malformed(err)
	}
	l.cl, l.entries = cl, entries
	return nil
}

// drop gives the reply back.
func (l *listing) drop() {
	if l.cl != nil {
		l.cl.release()
	}
	l.cl, l.entries = nil, proto.DirEntries{}
}

// listRequest opens a directory to list it.
func listRequest(remote string) *proto.CreateRequest {
	return &proto.CreateRequest{
		Access:      proto.AccessReadData | proto.AccessReadAttributes | proto.AccessSynchronize,
		Share:       proto.ShareAll,
		Disposition: proto.DispositionOpen,
		Options:     proto.OptionDirectory,
		Name:        remote,
	}
}

// ReadDir reads the named directory, all of it, sorted by name.
func (s *Share) ReadDir(name string) ([]fs.DirEntry, error) {
	var list []fs.DirEntry
	for e, err := range s.Entries(name) {
		if err != nil {
			return list, err
		}
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, nil
}

// Entries streams the named directory in the server's order, holding one reply of it at
// a time however large it is. An error ends the sequence and comes with a nil entry.
// Info of an entry asks nothing more of the server.
func (s *Share) Entries(name string) iter.Seq2[fs.DirEntry, error] {
	return func(yield func(fs.DirEntry, error) bool) {
		ctx, cancel := s.m.s.bounded(s.ctx)
		defer cancel()
		var l *listing
		err := s.resolve(name, func(ctx context.Context, t *tree, remote string) error {
			h, err := s.open(ctx, t, name, remote, listRequest(remote))
			if err != nil {
				return err
			}
			l = &listing{t: t, id: h.id}
			return nil
		})
		if err != nil {
			yield(nil, pathError("readdir", name, err))
			return
		}
		defer func() {
			l.drop()
			l.t.closeID(ctx, l.id)
		}()
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
