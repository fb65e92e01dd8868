package smb

import (
	"context"
	"io/fs"
	"os"

	"github.com/tarn-go/tarn/smb/internal/conn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// Open opens the named file or directory for reading.
func (s *Share) Open(name string) (*File, error) { return s.OpenFile(name, os.O_RDONLY, 0) }

// Create creates the named file, or truncates it when it exists, and opens it for reading and writing.
func (s *Share) Create(name string) (*File, error) {
	return s.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

// OpenFile opens the named file with the flags of package os (O_RDONLY, O_WRONLY, O_RDWR, O_APPEND, O_CREATE,
// O_EXCL, O_SYNC, O_TRUNC). A new file has the permissions perm, all of them, where the server has the POSIX extensions ([Dialer.POSIX]).
// Otherwise only the owner's write bit of perm is used: without it a new file is marked
// read-only. An existing file stays as it is, also with O_TRUNC: it keeps its attributes, streams, security descriptor and time of creation.
// A file opened with O_APPEND can be truncated by Share.Truncate, not by File.Truncate: it is
// opened without the right to write elsewhere. Other clients may open the file for reading, writing and deletion meanwhile.
func (s *Share) OpenFile(name string, flag int, perm fs.FileMode) (*File, error) {
	f, err := s.openFile(name, flag, perm)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return f, nil
}

// OpenAttributes opens the named file or directory for what it has besides data: for File.Stat, Chtimes, SetAttributes, Chmod, Chown and
// Remove. Neither the file's permissions for data nor the read-only attribute prevent that, nor programs that have it open for themselves
// alone. Reading, writing and listing are refused. The server does not keep it across a loss.
func (s *Share) OpenAttributes(name string) (*File, error) {
	var f *File
	err := s.run(operation{kind: opOpen, name: name, do: func(ctx context.Context, t view, remote string) error {
		req := setRequest(remote)
		req.Contexts.QueryOnDiskID = true
		h, err := s.open(ctx, t, name, remote, req)
		if err == nil {
			f = &File{h: h, ctx: s.ctx}
		}
		return err
	}})
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return f, nil
}

func (s *Share) openFile(name string, flag int, perm fs.FileMode) (*File, error) {
	return s.opened(opening{kind: kindOfOpening(flag), name: name, flag: flag, perm: perm})
}

// opening is how a file is opened.
type opening struct {
	kind   opKind
	name   string
	suffix string // behind the name: that of a stream
	flag   int
	perm   fs.FileMode
}

// kindOfOpening is the kind of operation that opens a file with flag.
func kindOfOpening(flag int) opKind {
	switch {
	case flag&os.O_EXCL != 0:
		return opCreateNew // a repetition would find the file that the first attempt created
	case flag&(os.O_CREATE|os.O_TRUNC) != 0:
		return opCreate
	}
	return opOpen
}

// opened opens a file.
func (s *Share) opened(o opening) (*File, error) {
	var f *File
	err := s.run(operation{kind: o.kind, name: o.name, suffix: o.suffix, do: func(ctx context.Context, t view, remote string) (err error) {
		f, err = o.on(ctx, t, remote)
		if err == nil {
			f.ctx = s.ctx
		}
		return err
	}})
	return f, err
}

// on opens the file on t. The File has no context yet.
func (o *opening) on(ctx context.Context, t view, remote string) (*File, error) {
	req := openRequest(remote, o.flag, o.perm)
	if req.Access&proto.AccessAppendData != 0 && t.Conn().Terms().Dialect == proto.Dialect202 {
		req.Access |= proto.AccessWriteData // impacket's server does not take the right to append as one to write
	}
	t.emptyByCreate(req, o.flag)
	req.Contexts.QueryOnDiskID = o.flag&os.O_TRUNC == 0 || o.flag&os.O_EXCL != 0 // for reopenDir and File.Remove; it costs the server time
	d, err := t.makeDurable(ctx, req)
	if err != nil {
		return nil, err
	}
	r, truncated, err := t.createEmptied(ctx, req, o.flag)
	if err != nil {
		t.m.s.leases.dismiss(d.lease)
		return nil, err
	}
	h := newHandle(t.tree, o.name+o.suffix, remote, &r)
	h.snapshot = req.Contexts.Timewarp
	h.grant(d)
	if h.isDir && o.flag&(os.O_WRONLY|os.O_RDWR) != 0 {
		h.close(ctx)
		return nil, errIsDirectory
	}
	switch {
	case truncated:
		h.length.Store(0)
	case o.flag&os.O_TRUNC != 0 && r.EndOfFile > 0 && r.Action == proto.ActionOpened:
		if err := t.truncateOpened(ctx, h); err != nil {
			h.close(ctx)
			return nil, err
		}
	}
	h.append = o.flag&os.O_APPEND != 0
	h.appendOnly = req.Access&(proto.AccessAppendData|proto.AccessWriteData) == proto.AccessAppendData
	return &File{h: h}, nil
}

// createEmptied sends the CREATE of an opening with flag and, with os.O_TRUNC, a request that empties the file in the same frame. No
// disposition of CREATE does that: OVERWRITE and OVERWRITE_IF remove a file's alternate streams and extended attributes, too, and replace
// its attributes (MS-FSA 2.1.5.1.2). truncated is false if the file has not been emptied so; it may have been empty.
func (v view) createEmptied(ctx context.Context, req *proto.CreateRequest, flag int) (r proto.CreateResponse, truncated bool, err error) {
	if flag&os.O_TRUNC == 0 || flag&os.O_EXCL != 0 {
		r, _, err = v.create(ctx, req, nil)
		return r, false, err
	}
	empty := proto.SetInfoRequest{Type: proto.InfoFile, Class: proto.ClassEndOfFile, FileID: proto.RelatedFileID(), Info: proto.AppendSize(nil, 0)}
	frame := []conn.Compounded{
		{}, // the CREATE
		{Call: v.Call(proto.CommandSetInfo), Request: &empty, AnyStatus: true},
	}
	r, together, err := v.create(ctx, req, frame)
	if err == nil && together {
		truncated = frame[1].Call.Status == proto.StatusSuccess
		frame[1].Call.Release()
	}
	return r, truncated, err
}

// truncateOpened empties a file that was just opened.
func (t *tree) truncateOpened(ctx context.Context, h *handle) error {
	cl := t.Call(proto.CommandSetInfo)
	cl.Effect = h.effect(opTruncateFile)
	h.length.Store(0)
	return t.Do(ctx, cl, &proto.SetInfoRequest{Type: proto.InfoFile, Class: proto.ClassEndOfFile, FileID: h.id, Info: proto.AppendSize(nil, 0)})
}

// emptyByCreate has CREATE empty the file on 2.0.2: impacket's server, which has no other dialect, ignores truncation.
func (t *tree) emptyByCreate(req *proto.CreateRequest, flag int) {
	if flag&os.O_TRUNC == 0 || t.Conn().Terms().Dialect != proto.Dialect202 {
		return
	}
	switch {
	case req.Disposition == proto.DispositionOpen:
		req.Disposition = proto.DispositionOverwrite
	case req.Disposition == proto.DispositionOpenIf && req.Attributes&proto.AttrReadOnly == 0: // an existing file would be read-only
		req.Disposition = proto.DispositionOverwriteIf
	}
}

// openRequest translates the flags of package os to those of CREATE.
func openRequest(remote string, flag int, perm fs.FileMode) *proto.CreateRequest {
	req := &proto.CreateRequest{Share: proto.ShareAll, Name: remote, Attributes: proto.AttrNormal}
	const read = proto.AccessReadData | proto.AccessReadEA | proto.AccessReadAttributes | proto.AccessReadControl | proto.AccessSynchronize
	const write = proto.AccessWriteData | proto.AccessAppendData | proto.AccessWriteEA | proto.AccessWriteAttributes |
		proto.AccessReadAttributes | proto.AccessSynchronize
	switch {
	case flag&os.O_RDWR != 0:
		req.Access = read | write
	case flag&os.O_WRONLY != 0:
		req.Access = write
	default:
		req.Access = read
	}
	if flag&os.O_APPEND != 0 && req.Access&proto.AccessWriteData != 0 {
		req.Access &^= proto.AccessWriteData // so that the server appends
	}
	create, trunc := flag&os.O_CREATE != 0, flag&os.O_TRUNC != 0
	if trunc {
		req.Access |= proto.AccessWriteData
	}
	switch {
	case create && flag&os.O_EXCL != 0:
		req.Disposition = proto.DispositionCreate
	case create:
		req.Disposition = proto.DispositionOpenIf
	default:
		req.Disposition = proto.DispositionOpen
	}
	if create {
		req.Contexts.Mode = posixMode(perm)
		if perm&0o200 == 0 {
			req.Attributes = proto.AttrReadOnly
		}
		if flag&os.O_EXCL == 0 { // otherwise whatever has the name is refused as existing
			req.Options |= proto.OptionNonDirectory
		}
	}
	if flag&os.O_SYNC != 0 {
		req.Options |= proto.OptionWriteThrough
	}
	return req
}

// open opens a file.
func (s *Share) open(ctx context.Context, t view, name, remote string, req *proto.CreateRequest) (*handle, error) {
	r, _, err := t.create(ctx, req, nil)
	if err != nil {
		return nil, err
	}
	h := newHandle(t.tree, name, remote, &r)
	h.snapshot = req.Contexts.Timewarp
	return h, nil
}

// create sends the CREATE of a file that stays open: in front of the related requests in frame, whose first place is free, or alone if
// frame is nil or the server grants too few credits for all of it. together is whether frame was sent; then the caller releases its calls
// when the error is nil.
func (v view) create(ctx context.Context, req *proto.CreateRequest, frame []conn.Compounded) (r proto.CreateResponse, together bool, err error) {
	change, err := v.prepare(ctx, req, "")
	if err != nil {
		conn.ReleaseAll(frame)
		return r, false, err
	}
	cl := v.createCall(req.Name, change, staysOpen)
	if frame != nil {
		frame[0] = conn.Compounded{Call: cl, Request: req}
		for i := range frame {
			frame[i].Call.Effect = change
		}
		err = v.Compound(ctx, frame)
		if together = err != conn.ErrNoCredits; !together {
			cl = v.createCall(req.Name, change, staysOpen)
		}
	}
	if !together {
		err = v.RoundTrip(ctx, cl, req)
	}
	if err != nil {
		return r, together, err
	}
	if r, err = proto.DecodeCreateResponse(cl.Message()); err == nil {
		cl.Release()
		return r, together, nil
	}
	if together {
		conn.ReleaseAll(frame[1:])
	}
	return r, together, cl.Malformed(err)
}
