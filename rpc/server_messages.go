package rpc

import (
	"context"
	"errors"
	"io"

	"github.com/tarn-go/tarn/rpc/internal/message"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// This file has the messages of a call: how many there are, how they are encoded, and what follows from an error of one.

var (
	errHeaderSent = status.Error(codes.Internal, "rpc: the response header has been sent already")
	errCallOver   = status.Error(codes.Canceled, "rpc: the handler of this call has returned")
	errDecoded    = status.Error(codes.Internal, "rpc: caller decoded the request a second time, or after the handler had returned")
)

// errNotReplied is writeReply's error if it has sent nothing.
var errNotReplied = errors.New("rpc: the response is a status")

// send sends one message. A *tarn.Chain or *tarn.Buffer is sent as it is and emptied.
func (r *runner) send(c serverCarrier, codec message.Codec, v any) error {
	return r.abort(c, r.sendOpen(c, codec, v))
}

// sendOpen is send without the end of the call after an error.
func (r *runner) sendOpen(c serverCarrier, codec message.Codec, v any) error {
	o := &c.server().opts
	comp, _ := c.compression()
	m, info, err := encodeMessage(o.pool, codec, comp, o.maxSend, v)
	if err != nil {
		return err
	}
	if info, err = r.sendMessage(c, m, info); err != nil {
		return err
	}
	c.socket().MessageSent()
	if len(o.stats) > 0 {
		r.statsOutPayload(c, v, info)
	}
	return nil
}

// sendMessage sends m, of which it takes ownership.
func (r *runner) sendMessage(c serverCarrier, m message.Message, info payloadInfo) (payloadInfo, error) {
	r.sendMu.Lock()
	defer r.sendMu.Unlock()
	if r.released {
		m.Free()
		return info, errCallOver
	}
	r.seen.set(sending)
	defer r.seen.set(working)
	return c.writeMessage(m, info)
}

// sendReply sends header, m, of which it takes ownership, and the status that it returns.
func (r *runner) sendReply(c serverCarrier, m message.Message, info payloadInfo) (*status.Status, payloadInfo, error) {
	r.sendMu.Lock()
	defer r.sendMu.Unlock() // also if a stats handler ends the goroutine
	st, info, err := c.writeReply(m, info)
	if err == errNotReplied {
		st = r.endResponse(c, st, afterHandler)
	}
	return st, info, err
}

// encodeReply encodes the result of a unary handler, which does not change any more: its long bytes fields are sent from their own memory. They
// may be views of a lent request, whose memory the carrier may free before the last byte has been sent. A codec or a compressor that panics ends
// the call alone.
func (r *runner) encodeReply(c serverCarrier, s *Server, reply any) (m message.Message, info payloadInfo, err error) {
	defer r.recover(c, &err)
	codec := c.asked().codec
	comp, _ := c.compression()
	if _, ok := codec.(message.Proto); ok && comp == nil {
		switch {
		case r.lease == nil:
			codec = message.Spliced{}
		case c.lent() == lentUntilSent:
			r.recvMu.Lock() // a goroutine that the handler left running may be decoding the request
			defer r.recvMu.Unlock()
			codec = message.Spliced{}
			if r.lease.Size() >= message.SpliceFrom {
				codec = message.Spliced{Lent: r.lease}
			}
		}
	}
	return encodeMessage(s.opts.pool, codec, comp, s.opts.maxSend, reply)
}

// receive waits for one message. io.EOF means that the client has sent its last message. For a method without client streaming it also waits for
// the request's end after the message.
func (r *runner) receive(c serverCarrier, v any) error { return r.abort(c, r.receiveOpen(c, v)) }

// receiveOpen is receive without the end of the call after an error.
func (r *runner) receiveOpen(c serverCarrier, v any) error {
	r.recvMu.Lock()
	defer r.recvMu.Unlock()
	if r.lease != nil {
		r.lease.Release() // the message before this one
	}
	r.seen.set(receiving)
	defer r.seen.set(working)
	got := c.next()
	single := !c.asked().clientStreams()
	if got.err == io.EOF && (!single || r.gotOne) {
		return io.EOF
	}
	if got.err == io.EOF {
		got.err = errNoMessage
	}
	if err := r.decode(c, &got, v); err != nil || !single {
		return err
	}
	r.gotOne = true
	switch after := c.next(); after.err {
	case io.EOF:
		return nil
	case nil:
		after.msg.Free()
		return (&received{err: errTwoMessages}).status(c.server().opts.maxRecv, c.counts())
	default:
		return after.status(c.server().opts.maxRecv, c.counts())
	}
}

// abort ends the call with the status of err, which SendMsg or RecvMsg is about to return, and returns err. Package grpc says of both that an
// error aborts the stream: OK must not follow a message that could not be sent or received. Unless the call has ended, nothing that
// the handler does afterwards has an effect.
func (r *runner) abort(c serverCarrier, err error) error {
	if err == nil || err == io.EOF || c.Err() != nil {
		return err
	}
	if !r.sendMu.TryLock() {
		// Another goroutine may be in SendMsg and wait for the peer's window.
		c.interrupt()
		r.sendMu.Lock()
	}
	defer c.cancel(context.Canceled)
	defer r.sendMu.Unlock()
	if r.aborted == codes.OK && !r.released {
		r.aborted = r.endResponse(c, statusOf(err), duringHandler).Code()
	}
	return err
}

// decodeFirst is the function with which a unary handler decodes its request. It is bound to the call, so that a handler that keeps it cannot
// reach another call's request.
func (r *runner) decodeFirst(c serverCarrier, v any) error {
	r.recvMu.Lock()
	got := received{err: errDecoded}
	if first := r.first; first != nil {
		got = *first
		*first, r.first = received{}, nil
	}
	if r.lease != nil { // release waits for this
		defer r.recvMu.Unlock()
	} else {
		r.recvMu.Unlock()
	}
	return r.decode(c, &got, v)
}

// dropFirst makes decodeFirst fail from now on.
func (r *runner) dropFirst() {
	r.recvMu.Lock()
	if first := r.first; first != nil {
		first.msg.Free()
		*first, r.first = received{}, nil
	}
	r.recvMu.Unlock()
}

// decode fills v from got and frees its message.
func (r *runner) decode(c serverCarrier, got *received, v any) error {
	o, q := &c.server().opts, c.asked()
	if got.err != nil {
		return got.status(o.maxRecv, c.counts())
	}
	size, err := 0, c.server().decompress(c, got)
	if err == nil {
		size, err = decodeMessage(o.pool, q.codec, q.compressor, o.maxRecv, got, r.lease, v)
	}
	if err != nil {
		if status.Code(err) == codes.Internal && (got.kind == message.Plain || q.compressor != nil) { // malformed, not compressed without a name
			err = status.Error(c.counts().malformed, status.Convert(err).Message())
		}
		return err
	}
	if q.method != nil && r.lease == nil {
		q.method.requests.From(v)
	}
	c.socket().MessageReceived()
	if len(o.stats) > 0 {
		r.statsInPayload(c, v, size, got)
	}
	return nil
}

// decompress makes got's message plain. It waits while as many messages as there are processors are being decompressed: more at a time would not
// be faster, and the server would hold a part of the output of each.
func (s *Server) decompress(c serverCarrier, got *received) error {
	if got.kind != message.Compressed {
		return nil
	}
	select {
	case s.decompressing <- struct{}{}:
	default:
		select {
		case s.decompressing <- struct{}{}:
		case <-c.Done():
			got.msg.Free()
			return status.FromContextError(c.Err()).Err()
		}
	}
	defer func() { <-s.decompressing }() // also if the compressor panics
	return got.decompress(s.opts.pool, c.asked().compressor, s.opts.maxRecv)
}

// sendHeader sends the header now, with md. It fails when the header has been sent.
func (r *runner) sendHeader(c serverCarrier, md metadata.MD) error {
	if err := checkMetadata(md); err != nil {
		return err
	}
	r.sendMu.Lock()
	defer r.sendMu.Unlock()
	if err := r.lastHeader(md); err != nil {
		return err
	}
	return c.writeHeader()
}
