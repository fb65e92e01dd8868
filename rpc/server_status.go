package rpc

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/rpc/internal/header"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// okTrailer is the trailer of a successful call.
var okTrailer = h2.NewBlock(h2.Field{Name: "grpc-status", Value: "0"})

// okTrailerSize is the length of okTrailer as SETTINGS_MAX_HEADER_LIST_SIZE counts it (RFC 9113 section 6.5.2).
const okTrailerSize = len("grpc-status") + len("0") + 32

// statusOf is the status of a handler's error: its own, that of a context's error, UNKNOWN otherwise.
func statusOf(err error) *status.Status {
	if err == nil {
		return nil
	}
	if st, ok := status.FromError(err); ok {
		return st
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return status.FromContextError(err)
	}
	return status.New(codes.Unknown, err.Error())
}

// appendStatus appends grpc-status, grpc-message and the details of st.
func appendStatus(fs []h2.Field, st *status.Status) []h2.Field {
	fs = append(fs, h2.Field{Name: "grpc-status", Value: header.StatusText(st.Code())})
	if msg := st.Message(); msg != "" {
		fs = append(fs, h2.Field{Name: "grpc-message", Value: header.EncodeMessage(msg)})
	}
	if p := st.Proto(); p != nil && len(p.Details) > 0 {
		if b, err := proto.Marshal(p); err == nil {
			fs = append(fs, h2.Field{Name: detailsKey, Value: header.EncodeValue(detailsKey, string(b))})
		}
	}
	return fs
}

const detailsKey = "grpc-status-details-bin"

// sendStatus sends the status, OK for a nil st, without blocking. It returns the status that putStatus, or a header that
// does not fit, has made of it.
func (c *serverCall) sendStatus(st *status.Status) *status.Status {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	return c.sendStatusLocked(st)
}

// sendStatusLocked is sendStatus; sendMu is held.
func (c *serverCall) sendStatusLocked(st *status.Status) *status.Status {
	switch {
	case c.released: // a stats handler that was called after the response has ended the goroutine
		return st
	case c.aborted == codes.OK:
		return c.writeStatus(st)
	}
	if st.Code() != c.aborted {
		st = status.New(c.aborted, "an error of SendMsg or RecvMsg aborted the stream")
	}
	return st
}

// abort ends the call with the status of err, which SendMsg or RecvMsg is about to return, and returns err. Package grpc says of both that an
// error aborts the stream: OK must not follow a message that could not be sent or received. Unless the call has ended, nothing that
// the handler does afterwards has an effect.
func (c *serverCall) abort(err error) error {
	if err == nil || err == io.EOF || c.Err() != nil {
		return err
	}
	if !c.sendMu.TryLock() {
		// Another goroutine may be in SendMsg and wait for the peer's window, which the end of the context ends.
		c.cancel(context.Canceled)
		c.sendMu.Lock()
	}
	defer c.cancel(context.Canceled)
	defer c.sendMu.Unlock()
	if c.aborted == codes.OK && !c.released {
		c.aborted = c.writeStatus(statusOf(err)).Code()
	}
	return err
}

// writeStatus is sendStatus; sendMu is held.
func (c *serverCall) writeStatus(st *status.Status) *status.Status {
	var out h2.Out
	out.Ending = h2.End
	if !c.sentHeader && (st.Code() == codes.OK || len(c.header) > 0) {
		if err := c.putHeader(&out); err != nil {
			st = statusOf(err)
		}
	}
	st = c.putStatus(&out, st)
	// A failure means that the stream has ended already.
	if err := c.st.Write(nil, &out); err == nil && len(c.conn.srv.opts.stats) > 0 {
		c.statsOutTrailer()
	}
	return st
}

// putStatus adds the status and the trailer to out, or INTERNAL alone if they are longer than what the client takes, and
// returns the status that it added. That one is counted, and is the error in the stats handlers' End, whose OutTrailer is
// empty then. Interceptors, and the binary log, which is one, have returned before: they saw the handler's status and trailer.
// Nothing is logged, because a client could fill a log by announcing a low limit. sendMu is held.
func (c *serverCall) putStatus(out *h2.Out, st *status.Status) *status.Status {
	c.replaceDetails(st)
	if err := c.putEnd(out, st, c.trailer); err != nil {
		c.trailer = nil
		st = replaced(err, st)
		_ = c.putEnd(out, st, nil)
	}
	c.sentHeader = true
	return st
}

// replaced is the status that is sent instead of st because of err.
func replaced(err error, st *status.Status) *status.Status {
	return status.Newf(codes.Internal, "%s; the status was %v", status.Convert(err).Message(), st.Code())
}

// putEnd adds a status and a trailer to out: as trailers, or as a trailers-only response when no header has been or is
// being sent. It fails if they are longer than what the client takes.
func (c *serverCall) putEnd(out *h2.Out, st *status.Status, trailer metadata.MD) error {
	out.TrailerBlock, out.Trailers = nil, nil
	switch {
	case st.Code() == codes.OK:
		out.TrailerBlock = okTrailer
		if len(trailer) == 0 {
			return nil
		}
		out.Trailers = appendMetadata(nil, trailer)
		return c.conn.fits("trailers", okTrailerSize, out.Trailers)
	case c.sentHeader:
		out.Trailers = appendMetadata(appendStatus(nil, st), trailer)
		return c.conn.fits("trailers", 0, out.Trailers)
	default:
		out.Fields = appendMetadata(appendStatus([]h2.Field{{Name: ":status", Value: httpOK},
			{Name: "content-type", Value: header.ContentType(c.shape.subtype)}}, st), trailer)
		return c.conn.fits("header with the status", 0, out.Fields)
	}
}

// refuse answers a request that does not become a call.
func (c *serverConn) refuse(s *h2.Stream, subtype string, r *refusal) {
	fs := []h2.Field{{Name: ":status", Value: r.httpStatus}}
	out := h2.Out{Ending: h2.End}
	if r.body == "" {
		fs = append(fs, h2.Field{Name: "content-type", Value: header.ContentType(subtype)})
	} else {
		fs = append(fs, h2.Field{Name: "content-type", Value: "text/plain; charset=utf-8"})
		out.Data = c.srv.opts.pool.Copy([]byte(r.body))
	}
	out.Fields = append(appendStatus(slices.Clip(fs), r.st), r.fields...)
	// The message may quote the request, and take up to three times its length.
	if err := c.fits("header with the status", 0, out.Fields); err != nil {
		out.Fields = appendStatus(fs, replaced(err, r.st))
	}
	if s.Post(&out) == h2.ErrWouldBlock {
		out.Data = tarn.Buffer{}
		_ = s.Post(&out) // without the body, which has been freed: the client's window is too small
	}
	// Another failure means that the stream has ended.
	s.Release()
}
