package rpc

import (
	"context"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/tarn-go/tarn/rpc/internal/entity"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// serverCarrier is what has brought one call to a server, and takes the response back: a *serverCall, which is a stream of HTTP/2 on a connection of
// Serve, or a *webCall, which is a request that ServeHTTP was given. It is the call's context and the grpc.ServerStream of its handler. Everything
// that does not depend on how bytes come and go is done by the runner that it embeds.
type serverCarrier interface {
	context.Context // ends with the call
	grpc.ServerStream

	run() *runner
	server() *Server
	// asked is what the request's header says.
	asked() *requested
	// incoming is the request's metadata, and peer is the client. They are shared and must not be changed.
	incoming() metadata.MD
	peer() *peer.Peer
	// counts holds the protocol's errors for requests.
	counts() count
	// compression returns how messages of the response are compressed; nil: they are not.
	compression() (c encoding.Compressor, name string)
	// offered returns the names of the compressions that the client accepts, and compressBy makes the response have one of them, or none for a
	// nil c. sendMu is held.
	offered() []string
	compressBy(c encoding.Compressor, name string)
	// prefix is the length of what precedes each message, in bytes.
	prefix() int
	// lent says until when the response may have views of a lent request.
	lent() lentUntil
	// socket is the connection in channelz; nil: it is not listed.
	socket() *entity.Socket

	// only waits for the message of a unary call, which the caller frees.
	only() received
	// next waits for the next message of a stream, which the caller frees. The error is io.EOF when the client has sent its last message.
	// recvMu is held.
	next() received
	// invoke calls the handler of a unary method.
	invoke() (reply any, err error)

	// The write methods do not block longer than the client's windows, the network, and the call's deadline make them. sendMu is held.
	//
	// writeHeader sends the response's header.
	writeHeader() error
	// writeMessage sends m, of which it takes ownership, after the header if that has not been sent. It returns info with the length that m
	// has had on the wire.
	writeMessage(m message.Message, info payloadInfo) (payloadInfo, error)
	// writeReply sends header, m, of which it takes ownership, and OK with the trailer, together if possible. It returns the status that it has sent.
	// The error is errNotReplied if nothing was sent and the status says why, which the caller sends.
	writeReply(m message.Message, info payloadInfo) (*status.Status, payloadInfo, error)
	// writeStatus ends the response with st, nil for OK, and the trailer. It returns the status that a header or a trailer that does not fit has
	// made of it. It fails if the client has gone.
	writeStatus(st *status.Status, at statusTime) (*status.Status, error)

	// cancel ends the context with err, and what waits for the client's messages.
	cancel(err error)
	// interrupt is cancel for a call one of whose goroutines is in a write.
	interrupt()
	// abandon ends the response without a status.
	abandon()
	// release ends the context and frees the carrier's memory, after the handler and the status. It sets released.
	release()
	// releaseLent frees the memory of lent requests, after all of the program's that may read it. A goroutine that the handler left running may be
	// decoding one.
	releaseLent()
}

// statusTime says when a status is sent.
type statusTime uint8

const (
	afterHandler  statusTime = iota
	duringHandler            // because SendMsg or RecvMsg has failed: the handler may use the call further
)

// requested is what a request's header says about its call, in every protocol.
type requested struct {
	path       string
	method     *method // nil: the handler of unknown services
	codec      message.Codec
	encoding   string              // of the request's messages; "": none
	compressor encoding.Compressor // of that name
}

// isUnary reports whether the method is neither a stream nor unknown.
func (q *requested) isUnary() bool { return q.method != nil && q.method.unary != nil }

func (q *requested) clientStreams() bool {
	return q.method == nil || q.method.stream != nil && q.method.stream.ClientStreams
}

func (q *requested) serverStreams() bool {
	return q.method == nil || q.method.stream != nil && q.method.stream.ServerStreams
}

// lentUntil says until when a response may have views of a lent request.
type lentUntil uint8

const (
	lentUntilEncoded lentUntil = iota
	lentUntilSent
)

// runner is the part of a call that does not depend on its carrier: it calls the tap, statistics handlers, interceptors and the handler, recovers
// what they throw, keeps to the number of messages that the method's kind allows (server_messages.go), and decides on the status. A carrier
// embeds it, and passes itself to its methods: an interface value in it would make a call that Serve serves larger than its size class.
type runner struct {
	user   context.Context // the handler's context: the carrier, or one made by a tap or statistics handlers
	seen   *observed       // for statistics and the debug page; nil without
	recvMu sync.Mutex      // held while a message is received or decoded
	first  *received       // the request of a unary call, until it is decoded or its handler has returned. Under recvMu
	lease  *message.Lease  // of lent requests; nil: they are not lent. Under recvMu
	responseMetadata
}

// run, with which each carrier has its runner.
func (r *runner) run() *runner { return r }

// Context is the handler's context.
func (r *runner) Context() context.Context { return r.user }

// tap calls InTapHandle's function when the header of a call has come. It returns the status of a call that is refused, or whose deadline has
// passed.
func (r *runner) tap(c serverCarrier) *status.Status {
	at, bounded := c.Deadline()
	if f := c.server().opts.tap; f != nil {
		ctx, cancel := r.user, func() {}
		if bounded {
			// The call's timer starts after f: an f that waits for c's end would block a connection for ever.
			ctx, cancel = context.WithDeadline(ctx, at)
			end := cancel
			context.AfterFunc(c, func() {
				if c.Err() != context.DeadlineExceeded { // which ctx's own timer is about to say
					end()
				}
			})
		}
		user, err := r.callTap(c, f, ctx)
		if err == nil {
			err = status.FromContextError(ctx.Err()).Err()
		}
		if err != nil {
			cancel()
			return refusedBy(err)
		}
		r.user = user
	}
	if bounded && time.Until(at) <= 0 {
		return status.FromContextError(context.DeadlineExceeded)
	}
	return nil
}

// callTap calls InTapHandle's function, whose panic refuses the call: it may run on the goroutine that reads a connection.
func (r *runner) callTap(c serverCarrier, f tap.ServerInHandle, ctx context.Context) (user context.Context, err error) {
	defer r.recover(c, &err)
	return f(ctx, &tap.Info{FullMethodName: c.asked().path, Header: c.incoming()})
}

// refusedBy is the status of a call that InTapHandle's function refused with err.
func refusedBy(err error) *status.Status {
	if st, ok := status.FromError(err); ok {
		return st
	}
	return status.New(codes.PermissionDenied, err.Error())
}

// serve calls everything of the program's from the beginning of a call to its end, and sends the response. It uses first for the request of a unary
// call, and refers to it no more when it has returned. exited does the rest when it does not return.
func (r *runner) serve(c serverCarrier, first *received) {
	s, q := c.server(), c.asked()
	if o := s.opts.observe; o != nil {
		if r.seen == nil {
			r.seen = &observed{begun: time.Now()}
		}
		o.enlist(r.seen, q.path, working)
	}
	if len(s.opts.stats) > 0 {
		r.statsBegin(c)
	}
	var err error
	if q.isUnary() {
		err = r.unary(c, s, first)
	} else {
		err = r.stream(c, s, q)
	}
	r.report(c, s, err)
}

// report reports the end of the call.
func (r *runner) report(c serverCarrier, s *Server, err error) {
	r.ended = true
	s.entity.End(entity.OutcomeOf(err))
	r.seen.end(err, c) // before its metadata is released
	if r.lease != nil {
		defer c.releaseLent() // err may have strings of the request
	}
	c.release()
	if len(s.opts.stats) > 0 {
		r.statsEnd(c, err)
	}
}

// errNoReturn is the end of a call whose handler has not returned.
var errNoReturn = status.Error(codes.Internal, "the handler ended its goroutine")

// exited ends a call in which the program's code has ended its goroutine: with runtime.Goexit, or, over ServeHTTP, by a panic of a stats handler
// outside of the handler and its interceptors.
func (r *runner) exited(c serverCarrier) {
	if r.ended {
		return // by a statistics handler, at the very end
	}
	err := errNoReturn
	defer func() { r.report(c, c.server(), err) }() // also if a stats handler fails again
	logger.Errorf("the goroutine of a call of %s has ended by a panic or runtime.Goexit", c.asked().path)
	err = r.sendStatus(c, status.Convert(errNoReturn)).Err()
}

// unary runs a unary handler and sends its reply.
func (r *runner) unary(c serverCarrier, s *Server, first *received) error {
	r.seen.set(receiving)
	*first = c.only()
	r.seen.set(working)
	if first.err != nil {
		// As in grpc-go, interceptors are not called when no request has arrived.
		err := first.status(s.opts.maxRecv, c.counts())
		*first = received{}
		return r.sendStatus(c, statusOf(err)).Err()
	}
	r.first = first
	reply, err := r.callUnary(c)
	if err != nil {
		return r.failUnary(c, err)
	}
	m, info, err := r.encodeReply(c, s, reply)
	if err != nil {
		return r.failUnary(c, err)
	}
	st, info, err := r.sendReply(c, m, info)
	switch {
	case err == errNotReplied:
		return st.Err()
	case err != nil:
		return err
	}
	c.socket().MessageSent()
	if len(s.opts.stats) > 0 {
		r.statsOutPayload(c, reply, info)
		r.statsOutTrailer(c)
	}
	return st.Err()
}

// callUnary calls a unary handler with its interceptors.
func (r *runner) callUnary(c serverCarrier) (reply any, err error) {
	defer r.dropFirst()
	defer r.recover(c, &err)
	return c.invoke()
}

// failUnary ends a unary call with err, which is not nil.
func (r *runner) failUnary(c serverCarrier, err error) error {
	if err == errAborted {
		c.abandon()
		return errAborted
	}
	st := statusOf(err)
	if st.Code() == codes.OK {
		// An error with the status OK. Without a message it would be an empty reply in Connect, and the client's error in gRPC.
		st = status.New(codes.Internal, responseCount.none)
	}
	return r.sendStatus(c, st).Err()
}

// stream runs a streaming handler, or the one for unknown methods.
func (r *runner) stream(c serverCarrier, s *Server, q *requested) error {
	err := r.callStream(c, s, q)
	if err == errAborted {
		c.abandon()
		return errAborted
	}
	st := statusOf(err)
	if st.Code() == codes.OK {
		st = nil
	}
	return r.sendStatus(c, st).Err()
}

// callStream calls a streaming handler with its interceptors.
func (r *runner) callStream(c serverCarrier, s *Server, q *requested) (err error) {
	defer r.recover(c, &err)
	handler, impl, info := s.opts.unknown, any(nil), (*grpc.StreamServerInfo)(nil)
	if m := q.method; m != nil {
		handler, impl, info = m.stream.Handler, m.impl, m.info
	} else {
		info = &grpc.StreamServerInfo{FullMethod: q.path, IsClientStream: true, IsServerStream: true}
	}
	if s.stream == nil {
		return handler(impl, c)
	}
	return s.stream(impl, c, info, handler)
}

// errAborted is the end of a call that has no status: its handler has panicked with http.ErrAbortHandler, as it may to end any response of HTTP.
var errAborted = status.Error(codes.Internal, "the handler aborted the response")

// recover turns a panic of the program's code into the call's error: errAborted for http.ErrAbortHandler, which is not logged, as in net/http; INTERNAL otherwise.
func (r *runner) recover(c serverCarrier, err *error) {
	switch v := recover(); v {
	case nil:
	case http.ErrAbortHandler:
		*err = errAborted
	default:
		*err = c.server().recovered(c.asked().path, v)
	}
}

// recovered is the error of a call in which the program's code panicked with v. It calls the PanicHandler. The message for the client does not
// contain v, which may be confidential.
func (s *Server) recovered(path string, v any) error {
	stack := debug.Stack()
	if hook := s.opts.onPanic; hook != nil {
		hook(path, v, stack)
	} else {
		logger.Errorf("the handler of %s panicked: %v\n%s", path, v, stack)
	}
	return status.Error(codes.Internal, "the handler panicked")
}

// sendStatus sends the status, OK for a nil st, unless an error of SendMsg or RecvMsg has. It returns the status that was sent.
func (r *runner) sendStatus(c serverCarrier, st *status.Status) *status.Status {
	r.sendMu.Lock()
	defer r.sendMu.Unlock()
	switch {
	case r.released: // a stats handler that was called after the response has ended the goroutine
		return st
	case r.aborted == codes.OK:
		return r.endResponse(c, st, afterHandler)
	}
	if st.Code() != r.aborted {
		st = status.New(r.aborted, "an error of SendMsg or RecvMsg aborted the stream")
	}
	return st
}

// endResponse sends the status. sendMu is held.
func (r *runner) endResponse(c serverCarrier, st *status.Status, at statusTime) *status.Status {
	r.replaceDetails(st)
	st, err := c.writeStatus(st, at)
	if err == nil && len(c.server().opts.stats) > 0 {
		r.statsOutTrailer(c)
	}
	return st
}
