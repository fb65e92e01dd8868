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
	req.Output = t.replyLimit(req.Output)
	return step{cmd: proto.CommandQueryInfo, expect: int(req.Output), request: func(id proto.FileID) conn.Request {
		r := req
		r.FileID = id
		return &r
	}}
}

// ioctlStep is an IOCTL in a chain. The chain fills in req.FileID.
func (t *tree) ioctlStep(req proto.IoctlRequest) step {
	req.Output = t.replyLimit(req.Output)
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
}

// chain sends a chain.
func (v view) chain(ctx context.Context, create *proto.CreateRequest, use func(calls []*conn.Call) error, steps ...step) error {
	return v.send(ctx, chain{create: create, use: use, steps: steps})
}

// prepare completes a CREATE of the operation, and waits for its turn: no request that was given up may have an effect on the file, or on
// the one whose name target is, any more. It returns the effect of the CREATE and of the requests on its file.
func (v view) prepare(ctx context.Context, create *proto.CreateRequest, target string) (conn.Effect, error) {
	if v.snapshot != 0 {
		create.Contexts.Timewarp = v.snapshot
	}
	if v.posix && create.Contexts.Durable.Kind != proto.DurableReconnectV2 {
		requestPOSIX(create)
	}
	if v.kind.rule().undone == undoCreate {
		create.Contexts.QueryOnDiskID = true // for removeCreated
	}
	if err := v.awaitUnanswered(ctx, create.Name); err != nil {
		return nil, err
	}
	if target != "" {
		if err := v.awaitUnanswered(ctx, target); err != nil {
			return nil, err
		}
	}
	return v.effectOn(create.Name, target), nil
}

// closePolicy says how a file is closed that a CREATE opens.
type closePolicy uint8

const (
	closedInFrame    closePolicy = iota // by a request in the frame of the CREATE
	closedSeparately                    // by the same call, in a frame of its own
	staysOpen
)

// createCall is the call of a CREATE for the named file. If its caller returns before the reply, what the rule says is undone.
func (v view) createCall(remote string, change conn.Effect, policy closePolicy) *conn.Call {
	cl := v.Call(proto.CommandCreate)
	cl.Effect = change
	undone := v.kind.rule().undone
	closes, removes := policy == closedSeparately || policy == staysOpen && undone != notUndone, undone == undoCreate
	if closes || removes {
		t := v.tree
		cl.Undo = func(cl *conn.Call) {
			if closes {
				if r, err := proto.DecodeCreateResponse(cl.Message()); err == nil {
					t.closeID(context.Background(), r.FileID)
				}
			}
			if made, created := createdBy(cl); created && removes {
				t.removeCreated(remote, made)
			}
		}
	}
	return cl
}

// send sends c as one compound request (MS-SMB2 3.2.4.1.4), or one request after the other when the server grants too few credits for
// that. The file is closed on every path.
func (v view) send(ctx context.Context, c chain) error {
	change, err := v.prepare(ctx, c.create, renamedTo(c.steps))
	if err != nil {
		return err
	}
	last := proto.CloseRequest{FileID: proto.RelatedFileID()}
	if n := len(c.steps); n > 0 && c.steps[n-1].cmd == proto.CommandClose {
		last.Flags = proto.ClosePostQuery
		c.steps = c.steps[:n-1]
	}
	compound := make([]conn.Compounded, 0, 6)
	compound = append(compound, conn.Compounded{Call: v.createCall(c.create.Name, change, closedInFrame), Request: c.create})
	for i := range c.steps {
		compound = append(compound, v.compounded(&c.steps[i], proto.RelatedFileID()))
	}
	compound = append(compound, conn.Compounded{Call: v.Call(proto.CommandClose), Request: &last})
	for i := range compound {
		compound[i].Call.Effect = change
	}
	err = v.CompoundReplies(ctx, compound)
	if err == conn.ErrNoCredits {
		return v.sendSingly(ctx, c, &last, change)
	}
	if err != nil {
		return err
	}
	return v.useReplies(c, compound, conn.FirstRefusal(compound))
}

// useReplies uses the replies of a chain, unless it has failed with err, and releases them. done[0] is the CREATE. If the chain or the use of
// its replies fails, the file that it has created is removed, where the rule says so.
func (v view) useReplies(c chain, done []conn.Compounded, err error) error {
	if err == nil && c.use != nil {
		calls := make([]*conn.Call, len(done))
		for i := range done {
			calls[i] = done[i].Call
		}
		err = c.use(calls)
	}
	made, created := createdBy(done[0].Call)
	conn.ReleaseAll(done)
	if err != nil && created && v.kind.rule().undone == undoCreate {
		v.removeCreated(c.create.Name, made)
	}
	return err
}

// createdBy identifies the file that the CREATE cl has created; false if it has created none.
func createdBy(cl *conn.Call) (made fileIdentity, created bool) {
	if cl.Status != proto.StatusSuccess {
		return fileIdentity{}, false
	}
	r, err := proto.DecodeCreateResponse(cl.Message())
	return fileIdentityOf(&r), err == nil && r.Action == proto.ActionCreated
}

// renamedTo is the new name that one of the steps gives to the file; "" for none.
func renamedTo(steps []step) (target string) {
	for i := range steps {
		target = max(target, steps[i].target) // one step at most has one
	}
	return target
}

// closeStep, as the last step of a chain, makes its CLOSE return the file's attributes.
func closeStep() step { return step{cmd: proto.CommandClose} }

func (t *tree) compounded(st *step, id proto.FileID) conn.Compounded {
	cl := t.Call(st.cmd)
	cl.Expect, cl.Payload = st.expect, st.payload
	return conn.Compounded{Call: cl, Request: st.request(id), Also: st.also}
}

// sendSingly is send with a round trip for each request.
func (v view) sendSingly(ctx context.Context, c chain, closing *proto.CloseRequest, change conn.Effect) error {
	var done []conn.Compounded
	cl := v.createCall(c.create.Name, change, closedSeparately)
	if err := v.RoundTrip(ctx, cl, c.create); err != nil {
		return err
	}
	done = append(done, conn.Compounded{Call: cl})
	r, err := proto.DecodeCreateResponse(cl.Message())
	if err != nil {
		return cl.Malformed(err)
	}
	for i := range c.steps {
		p := v.compounded(&c.steps[i], r.FileID)
		p.Call.Effect = change
		if err = v.RoundTrip(ctx, p.Call, p.Request, p.Also); err != nil {
			break
		}
		done = append(done, p)
	}
	closing.FileID = r.FileID
	until, cancel := v.m.s.closing(ctx)
	defer cancel()
	last := v.closeCall()
	if cerr := v.RoundTrip(until, last, closing); cerr == nil {
		done = append(done, conn.Compounded{Call: last})
	} else if err == nil {
		err = cerr
	}
	return v.useReplies(c, done, err)
}
