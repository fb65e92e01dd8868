package smb

import (
	"context"
	"io/fs"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

// RemoveIf removes the named file, symbolic link or empty directory, read-only ones too, if check returns nil. Otherwise it returns the
// error of check, and removes nothing. check gets a description as that of [Share.Lstat], and what it describes is what is removed: the file
// is open meanwhile, so that a file of another client that gets the name stays. check may be called more than once, also for another file.
func (s *Share) RemoveIf(name string, check func(fs.FileInfo) error) error {
	return pathError("remove", name, s.run(operation{kind: opRemoveIf, name: name, do: func(ctx context.Context, v view, remote string) error {
		return v.removeIf(ctx, remote, v.described(ctx, name, check))
	}}))
}

// Remove removes the file that f has opened, read-only or not, by the name at which f has found it. If the name is that of another file by
// now, which then stays, or of none, the error matches fs.ErrNotExist. The file is there for those who have it open, f among them, until all
// have closed it. f may be closed before if it was opened without os.O_TRUNC, or with os.O_EXCL; otherwise Remove may take its file for
// another one then.
func (f *File) Remove() error {
	ctx, cancel := f.h.m.s.bounded(f.ctx)
	defer cancel()
	return f.wrap("remove", f.h.remove(ctx))
}

func (h *openFile) remove(ctx context.Context) error {
	id, err := h.openID(ctx)
	open := err == nil && id != 0 // while it is, no other file has its id
	at := &Share{m: h.m, ctx: ctx, snapshot: h.snapshot}
	return at.runIn(ctx, operation{kind: opRemoveIf, name: h.remote, do: func(ctx context.Context, v view, remote string) error {
		return v.removeIf(ctx, remote, func(r *proto.CreateResponse) error {
			found := fileIdentityOf(r)
			if open && found.id == id || found == h.made {
				return nil
			}
			return errAnotherFile
		})
	}})
}

// removeIf opens the file remote without following a link, and removes it by its handle if check returns nil.
func (v view) removeIf(ctx context.Context, remote string, check func(*proto.CreateResponse) error) error {
	err := v.removeChecked(ctx, remote, check)
	if hasStatus(err, proto.StatusCannotDelete) {
		err = v.removeReadOnly(ctx, remote, check)
	}
	return err
}

func removeRequest(remote string) *proto.CreateRequest {
	req := statRequest(remote)
	req.Access = proto.AccessDelete | proto.AccessReadAttributes
	req.Options = proto.OptionOpenReparsePoint
	return req
}

func removeStep() step { return setStep(proto.ClassDisposition, proto.AppendDelete(nil)) }

// removeChecked is removeIf for a file that may be written to.
func (v view) removeChecked(ctx context.Context, remote string, check func(*proto.CreateResponse) error) error {
	req := removeRequest(remote)
	req.Contexts.QueryOnDiskID = true
	return v.decide(ctx, req, func(r *proto.CreateResponse) (decision, error) {
		return decision{steps: []step{removeStep()}}, check(r)
	})
}

// removeReadOnly is removeIf for any file. One that cannot be removed keeps its attributes.
func (v view) removeReadOnly(ctx context.Context, remote string, check func(*proto.CreateResponse) error) error {
	req := removeRequest(remote)
	req.Access |= proto.AccessWriteAttributes
	req.Contexts.QueryOnDiskID = true
	return v.decide(ctx, req, func(r *proto.CreateResponse) (decision, error) {
		return decision{
			steps: []step{attributesStep(r.Attributes &^ proto.AttrReadOnly), removeStep()},
			undo:  []step{attributesStep(r.Attributes)},
		}, check(r)
	})
}

// attributesStep is a SET_INFO of the attributes in a chain.
func attributesStep(attributes proto.Attributes) step {
	b := proto.BasicInfo{Attributes: settable(attributes)}
	return setStep(proto.ClassBasic, b.Append(nil))
}
