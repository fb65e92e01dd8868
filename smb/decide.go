package smb

import (
	"context"
	"io/fs"

	"github.com/tarn-go/tarn/smb/internal/conn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// decision is what is done with a file that was opened and looked at. A step that fails is the last.
type decision struct {
	steps []step
	undo  []step // if a step has failed
}

// decide opens a file, has look decide what is done with it, and closes it. What is changed is the file that look gets a description of,
// whatever has its name by then. CLOSE is in one frame with the steps, unless these may have to be undone.
func (v view) decide(ctx context.Context, create *proto.CreateRequest, look func(*proto.CreateResponse) (decision, error)) error {
	r, _, err := v.create(ctx, create, nil)
	if err != nil {
		return err
	}
	d, err := look(&r)
	change := v.effectOn(create.Name, renamedTo(d.steps))
	if err == nil && len(d.steps) > 0 && len(d.undo) == 0 {
		closed, err := v.performAndClose(ctx, change, r.FileID, d.steps)
		if err != conn.ErrNoCredits {
			if !closed {
				v.closeOpened(ctx, r.FileID)
			}
			return err
		}
	}
	if err == nil {
		err = v.perform(ctx, change, r.FileID, d.steps)
	}
	if err != nil && len(d.undo) > 0 {
		until, cancel := v.m.s.closing(ctx)
		v.perform(until, change, r.FileID, d.undo) // err says more than its error
		cancel()
	}
	if closeErr := v.closeOpened(ctx, r.FileID); err == nil {
		err = closeErr
	}
	return err
}

// performAndClose sends steps and CLOSE in one frame. closed is whether the server has closed the file.
func (v view) performAndClose(ctx context.Context, change conn.Effect, id proto.FileID, steps []step) (closed bool, err error) {
	frame := make([]conn.Compounded, 0, 3)
	for i := range steps {
		frame = append(frame, v.compounded(&steps[i], id))
		id = proto.RelatedFileID()
	}
	frame = append(frame, conn.Compounded{Call: v.Call(proto.CommandClose), Request: &proto.CloseRequest{FileID: id}})
	for i := range frame {
		frame[i].Call.Effect = change
	}
	if err := v.CompoundReplies(ctx, frame); err != nil {
		return false, err
	}
	defer conn.ReleaseAll(frame)
	return frame[len(frame)-1].Call.Status == proto.StatusSuccess, conn.FirstRefusal(frame)
}

// perform sends steps one by one.
func (v view) perform(ctx context.Context, change conn.Effect, id proto.FileID, steps []step) error {
	for i := range steps {
		p := v.compounded(&steps[i], id)
		p.Call.Effect = change
		if err := v.RoundTrip(ctx, p.Call, p.Request, p.Also); err != nil {
			return err
		}
		p.Call.Release()
	}
	return nil
}

// closeOpened closes a file, also if the context has ended.
func (v view) closeOpened(ctx context.Context, id proto.FileID) error {
	until, cancel := v.m.s.closing(ctx)
	defer cancel()
	return v.closeID(until, id)
}

// described returns a function that calls check with a description of a file that was opened by name.
func (v view) described(ctx context.Context, name string, check func(fs.FileInfo) error) func(*proto.CreateResponse) error {
	return func(r *proto.CreateResponse) error {
		fi := statOf(name, r)
		if fi.attributes&proto.AttrReparsePoint != 0 && fi.tag == 0 {
			var err error
			if fi.tag, err = v.openTag(ctx, r.FileID); err != nil {
				return err
			}
		}
		return check(fi)
	}
}

// openTag queries the tag of an open reparse point.
func (t *tree) openTag(ctx context.Context, id proto.FileID) (tag uint32, err error) {
	req := proto.QueryInfoRequest{Type: proto.InfoFile, Class: proto.ClassAttributeTag, Output: 8, FileID: id}
	err = t.query(ctx, &req, func(b []byte) (err error) {
		_, tag, err = proto.DecodeAttributeTagInfo(b)
		return err
	})
	return tagOr(tag, err)
}

var errAnotherFile error = &classError{"the name is that of another file", fs.ErrNotExist}

// isMade returns a function that fails for other files than the one that made identifies.
func isMade(made fileIdentity) func(*proto.CreateResponse) error {
	return func(r *proto.CreateResponse) error {
		if fileIdentityOf(r) != made {
			return errAnotherFile
		}
		return nil
	}
}

// setOf does one step with the file that create opens, if it is the one that made identifies.
func (v view) setOf(ctx context.Context, create *proto.CreateRequest, made fileIdentity, st step) error {
	create.Contexts.QueryOnDiskID = true
	v.kind = opSetByName
	same := isMade(made)
	return v.decide(ctx, create, func(r *proto.CreateResponse) (decision, error) { return decision{steps: []step{st}}, same(r) })
}
