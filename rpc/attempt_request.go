package rpc

import (
	"context"
	"time"

	"github.com/tarn-go/tarn/h2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// request is what an attempt over gRPC needs to know of its call. A call makes one or more attempts with it, an ownCall one.
type request struct {
	cc       *ClientConn
	ctx      context.Context
	method   string
	info     callInfo
	deadline bool // at is set
	at       time.Time
	tagged   context.Context // ctx with what stats handlers put in, attempt by attempt
	picked   pick            // result of the picker for the attempt
	seen     *observed       // for the debug page; nil: the call is not observed
}

// checkOptions fails if the options could not be summed up, which bad says, or together make no call. Otherwise the call may take what they
// give it.
func (q *request) checkOptions(bad error) error {
	if bad != nil {
		return bad
	}
	if q.info.lending != nil {
		q.info.lease = q.info.lending.begin()
	}
	if no, ok := q.info.compressor.(unregistered); ok {
		return status.Errorf(codes.Internal, "grpc: Compressor is not installed for requested grpc-encoding %q", no.name)
	}
	return q.info.chooseCodec()
}

// authority is that of the call's options, or that which the balancer gives the attempt (gRFC A81); empty: the connection's.
func (q *request) authority() string {
	if a := q.info.authority; a != "" || q.picked.md == nil {
		return a
	}
	if given := q.picked.md.Get(":authority"); len(given) > 0 {
		return given[0]
	}
	return ""
}

// checkAuthority checks an authority that is not the connection's.
func (q *request) checkAuthority(conn *clientConn) error {
	authority := q.authority()
	if authority == "" {
		return nil
	}
	v, ok := conn.peer.AuthInfo.(credentials.AuthorityValidator)
	if !ok {
		return status.Errorf(codes.Unavailable, "rpc: credentials type %q does not implement the AuthorityValidator interface, but authority override specified with CallAuthority call option", authType(conn.peer))
	}
	if err := v.ValidateAuthority(authority); err != nil {
		return status.Errorf(codes.Unavailable, "failed to validate authority %q: %v", authority, err)
	}
	return nil
}

func authType(p peer.Peer) string {
	if p.AuthInfo == nil {
		return ""
	}
	return p.AuthInfo.AuthType()
}

// fill completes out by the request's header, and notes in a what its response needs. previous attempts have been made. out refers to space until
// the stream has been opened.
func (q *request) fill(out *h2.Out, a *grpcAttempt, conn *clientConn, space *[]h2.Field, previous int) (err error) {
	r := conn.route(q.method, &q.info, q.authority())
	out.Block = r.block
	a.conn = conn
	if q.info.lease == nil {
		a.replies = &r.replies
	}
	if *space, err = q.cc.callFields(*space, q, conn, previous); err != nil {
		return err
	}
	if err := conn.fits(r.size, *space); err != nil {
		return err
	}
	out.Fields = *space
	return nil
}

// open opens the stream; a then owns it. On error, seen says whether the server may have received any of it.
func (q *request) open(a *grpcAttempt, conn *clientConn, out *h2.Out) (seen progress, err error) {
	a.begun()
	carries := out.Data.Len() > 0 || out.Rest != nil
	q.seen.set(opening)
	st, err := conn.open(q.ctx, a, out)
	if err == nil {
		a.opened(st)
		q.seen.set(receiving)
		conn.began()
		if carries {
			conn.entity.MessageSent()
		}
		return maybeProcessed, nil
	}
	return q.openFailed(a, conn, out, err)
}

// open opens a stream of c for a. As by grpc-go's client, a header without a message is left to a goroutine: it leaves together with the first
// message if that follows at once, and a server that ends the call at its header mostly does so after the first SendMsg.
func (c *clientConn) open(ctx context.Context, a *grpcAttempt, out *h2.Out) (*h2.Stream, error) {
	if out.Data.Len() > 0 || out.Rest != nil || out.Ending == h2.End {
		return c.h2c.Open(ctx, a, out)
	}
	st, err := c.h2c.OpenLater(ctx, a, out)
	if err == nil {
		go c.h2c.Flush()
	}
	return st, err
}

// openFailed says how far the server got with an attempt that could not be opened, and returns its error.
func (q *request) openFailed(a *grpcAttempt, conn *clientConn, out *h2.Out, err error) (progress, error) {
	a.mu.Lock()
	a.sent = out.Opened
	ended, seen, st := a.end != nil, a.seen, a.status
	var r received
	if ended && st == nil && a.mode == onlyOne {
		r = a.only()
	}
	a.mu.Unlock()
	r.msg.Free()
	switch {
	// If a has ended, the server answered before it had the whole request.
	case ended && st != nil:
		return seen, q.failure(st)
	case r.err != nil:
		return seen, r.status(a.limit, responseCount)
	case ended:
		return seen, status.Error(codes.Internal, "rpc: the server ended the call before it had received the request")
	case q.ctx.Err() != nil:
		return maybeProcessed, status.FromContextError(q.ctx.Err()).Err()
	case !out.Opened && conn.h2c.Unusable() != nil: // also when the peer closed it without a GOAWAY
		conn.leave(err)
		return notSent, status.Error(codes.Unavailable, "the connection has ended: "+err.Error())
	}
	rst, seen := resetStatus(err)
	return seen, q.failure(rst)
}

// failure is the status of an attempt that has ended: DEADLINE_EXCEEDED also when the server, which enforces
// the same deadline, cancelled first.
func (q *request) failure(st *status.Status) error {
	if st.Code() == codes.OK {
		return nil
	}
	if st.Code() == codes.Canceled || st.Code() == codes.Unavailable {
		if err := q.ctx.Err(); err != nil {
			return status.FromContextError(err).Err()
		}
		if st.Code() == codes.Canceled && q.late() {
			return status.FromContextError(context.DeadlineExceeded).Err()
		}
	}
	return st.Err()
}

// late reports whether the call's deadline has passed. Its context may still have to note that.
func (q *request) late() bool { return q.deadline && time.Until(q.at) <= 0 }

// result reads the result of an attempt of a unary call that has ended, and returns the message, which has been freed, and its length.
func (q *request) result(a *grpcAttempt, reply any) (r received, n int, err error) {
	if a.status != nil {
		return r, 0, q.failure(a.status)
	}
	a.mu.Lock()
	r = a.only()
	a.mu.Unlock()
	if r.err != nil {
		return r, 0, r.status(a.limit, responseCount)
	}
	comp, err := a.decompressor(r.kind, &q.info)
	if err != nil {
		r.msg.Free()
		return r, 0, err
	}
	n, err = decodeMessage(q.cc.opts.pool, q.info.codec, comp, a.limit, &r, q.info.lease.memory(), reply)
	q.info.lease.keep()
	a.replies.From(reply)
	if err == nil {
		a.conn.entity.MessageReceived()
	}
	return r, n, err
}
