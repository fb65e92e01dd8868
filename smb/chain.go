package smb

import (
	"context"

	"github.com/tarn-go/tarn/smb/internal/conn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// step is one request of a chain, on the file that the chain opens.
type step struct {
	cmd     proto.Command
	request func(id proto.FileID) conn.Request
	expect  int          // data bytes that its reply may carry
	payload []byte       // of a WRITE; borrowed until the chain has ended
	also    proto.Status // a status accepted besides success
	target  string       // of a SET_INFO that renames the file: its new name
}

// setStep is a SET_INFO in a chain.
func setStep(class proto.InfoClass, body []byte) step {
	return step{cmd: proto.CommandSetInfo, request: func(id proto.FileID) conn.Request {
		return &proto.SetInfoRequest{Type: proto.InfoFile, Class: class, FileID: id, Info: body}
	}}
}

// queryStep is a QUERY_INFO in a chain. The chain fills in req.FileID.
func (t *tree) queryStep(req proto.QueryInfoRequest) step {
	req.Output = t.room(req.Output)
	return step{cmd: proto.CommandQueryInfo, expect: int(req.Output), request: func(id proto.FileID) conn.Request {
		r := req
		r.FileID = id
		return &r
	}}
}

// ioctlStep is an IOCTL in a chain. The chain fills in req.FileID.
func (t *tree) ioctlStep(req proto.IoctlRequest) step {
	req.Output = t.room(req.Output)
	return step{cmd: proto.CommandIoctl, expect: int(req.Output), request: func(id proto.FileID) conn.Request {
		r := req
		r.FileID = id
		return &r
	}}
}

// chain is CREATE, steps on the opened file, and CLOSE.
type chain struct {
	create *proto.CreateRequest
	steps  []step
	// use gets the replies: calls[0] is the CREATE, the last one the CLOSE. nil: nothing is done with them.
	use func(calls []*conn.Call) error
	// undo runs if the context ends before the chain has and the server's answer says that it has opened the file, in another
	// goroutine perhaps, after the return. nil: nothing.
	undo func()
}

// chain runs a chain that is not undone.
func (t view) chain(ctx context.Context, create *proto.CreateRequest, use func(calls []*conn.Call) error, steps ...step) error {
	return t.run(ctx, chain{create: create, use: use, steps: steps})
}

// run sends c as one compound request (MS-SMB2 3.2.4.1.4), or one request after the other when the server grants too few credits for
// that. The file is closed on every path.
func (t view) run(ctx context.Context, c chain) error {
	create, steps := c.create, c.steps
	if t.at != 0 {
		create.Contexts.Timewarp = t.at
	}
	change := t.changeOf(create, steps)
	if err := t.awaitUnanswered(ctx, create.Name); err != nil {
		return err
	}
	if to := renamedTo(steps); to != "" {
		if err := t.awaitUnanswered(ctx, to); err != nil {
			return err
		}
	}
	closing := proto.CloseRequest{FileID: proto.RelatedFileID()}
	if n := len(steps); n > 0 && steps[n-1].cmd == proto.CommandClose {
		closing.Flags = proto.ClosePostQuery
		steps = steps[:n-1]
	}
	compound := make([]conn.Compounded, 0, 6)
	first := t.Call(proto.CommandCreate)
	if c.undo != nil {
		first.Undo = func(*conn.Call) { c.undo() }
	}
	compound = append(compound, conn.Compounded{Call: first, Request: create})
	for i := range steps {
		compound = append(compound, t.compounded(&steps[i], proto.RelatedFileID()))
	}
	compound = append(compound, conn.Compounded{Call: t.Call(proto.CommandClose), Request: &closing})
	for i := range compound {
		compound[i].Call.Effect = change
	}
	err := t.Compound(ctx, compound)
	if err == conn.ErrNoCredits {
		c.steps = steps
		return t.runSingly(ctx, c, &closing, change)
	}
	if err != nil {
		return err
	}
	return useReplies(compound, c.use)
}

// closeStep, as the last step of a chain, makes its CLOSE return the file's attributes.
func closeStep() step { return step{cmd: proto.CommandClose} }

func (t *tree) compounded(st *step, id proto.FileID) conn.Compounded {
	cl := t.Call(st.cmd)
	cl.Expect, cl.Payload = st.expect, st.payload
	return conn.Compounded{Call: cl, Request: st.request(id), Also: st.also}
}

func useReplies(compound []conn.Compounded, use func(calls []*conn.Call) error) error {
	defer conn.ReleaseAll(compound)
	if use == nil {
		return nil
	}
	calls := make([]*conn.Call, len(compound))
	for i := range compound {
		calls[i] = compound[i].Call
	}
	return use(calls)
}

// runSingly is run with a round trip for each request.
func (t view) runSingly(ctx context.Context, c chain, closing *proto.CloseRequest, change conn.Effect) error {
	var done []conn.Compounded
	cl := t.Call(proto.CommandCreate)
	cl.Undo, cl.Effect = t.undoCreate(c.undo), change
	if err := t.RoundTrip(ctx, cl, c.create); err != nil {
		return err
	}
	done = append(done, conn.Compounded{Call: cl})
	r, err := proto.DecodeCreateResponse(cl.Message())
	if err != nil {
		return cl.Malformed(err)
	}
	for i := range c.steps {
		p := t.compounded(&c.steps[i], r.FileID)
		p.Call.Effect = change
		if err = t.RoundTrip(ctx, p.Call, p.Request, p.Also); err != nil {
			break
		}
		done = append(done, p)
	}
	closing.FileID = r.FileID
	until, cancel := t.m.s.closing(ctx)
	defer cancel()
	last := t.closeCall()
	if cerr := t.RoundTrip(until, last, closing); cerr == nil {
		done = append(done, conn.Compounded{Call: last})
	} else if err == nil {
		err = cerr
	}
	if err != nil {
		conn.ReleaseAll(done)
		if c.undo != nil && ctx.Err() != nil {
			c.undo()
		}
		return err
	}
	return useReplies(done, c.use)
}
