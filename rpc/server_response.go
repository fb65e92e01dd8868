package rpc

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/rpc/internal/header"
	"github.com/tarn-go/tarn/rpc/internal/message"
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

// putHeader adds the response header to out unless it has been sent. It fails, and the header is not sent, if that
// is longer than what the client takes. sendMu is held.
func (c *serverCall) putHeader(out *h2.Out) error {
	if c.state == headerWritten {
		return nil
	}
	block := c.shape.response
	if c.comp != nil {
		block = c.comp.response
	}
	if len(c.header) > 0 {
		out.Fields = appendMetadata(nil, c.header)
		if err := c.conn.fits("header", block.size, out.Fields); err != nil {
			out.Fields = nil
			return err
		}
	}
	c.state = headerWritten
	out.Block = block.Block
	if len(c.conn.srv.opts.stats) > 0 && c.Err() == nil { // otherwise no header leaves any more
		c.statsOutHeader(c)
	}
	return nil
}

// fits fails if a header list of a block of size bytes and fields is longer than the client's SETTINGS_MAX_HEADER_LIST_SIZE,
// or than what a client that has announced none is sent. A client that gets one all the same may end the connection, and with
// it all its calls.
func (c *serverConn) fits(what string, size int, fields []h2.Field) error {
	size += fieldsSize(fields)
	limit := c.h2c.PeerHeaderList()
	if limit == 0 {
		if err := checkUnannounced(size, c.srv.opts.unannounced, fields); err != nil {
			return status.Errorf(codes.Internal, "rpc: response %s %v", what, err)
		}
		return nil
	}
	if size > limit {
		return status.Errorf(codes.Internal, "rpc: response %s of %d bytes; the client takes %d", what, size, limit)
	}
	return nil
}

// sendError converts a failed write to the handler's error. A write may find the stream reset by DeadlinePassed, which is about to end
// the context; the call has to end with its deadline then, whichever goroutine is faster.
func (c *serverCall) sendError(err error) error {
	if at := c.timer.At(); err == h2.ErrStreamDone && !at.IsZero() && time.Until(at) <= 0 {
		c.cancel(context.DeadlineExceeded)
	}
	return sendError(c, err)
}

// sendError converts a failed write to the error for the handler of the call whose context is ctx.
func sendError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if cause := ctx.Err(); cause != nil {
		return status.FromContextError(cause).Err()
	}
	var reset *h2.StreamError
	if errors.As(err, &reset) && reset.Fault == h2.Told {
		return status.FromContextError(context.Canceled).Err() // the reset is about to end the context, too
	}
	return status.Error(codes.Unavailable, "rpc: the response could not be sent: "+err.Error())
}

// writeHeader sends the response header. sendMu is held.
func (c *serverCall) writeHeader() error {
	var out h2.Out
	if err := c.putHeader(&out); err != nil {
		return err
	}
	return c.sendError(c.st.Write(c, &out))
}

// writeMessage sends m, of which it takes ownership, and the header before the first. sendMu is held.
func (c *serverCall) writeMessage(m message.Message, info payloadInfo) (payloadInfo, error) {
	out := h2.Out{Data: m.Buf, Rest: m.Chain}
	defer freeOut(&out)
	if err := c.putHeader(&out); err != nil {
		return info, err
	}
	return info, c.sendError(c.st.Write(c, &out))
}

// writeReply sends header, m, of which it takes ownership, and the status in one write. While further calls of the connection are queued, it is left
// to be sent together with their responses: by whoever takes the next one, or when this call's handler has returned, for which unsent is set. sendMu is held.
func (c *serverCall) writeReply(m message.Message, info payloadInfo) (*status.Status, payloadInfo, error) {
	out := h2.Out{Data: m.Buf, Rest: m.Chain, Ending: h2.End, Release: true}
	defer freeOut(&out)
	if err := c.putHeader(&out); err != nil {
		return statusOf(err), info, errNotReplied
	}
	st := c.putStatus(&out, nil)
	var err error
	if workers := c.conn.srv.workers; workers.Next() == c.conn.h2c {
		err = c.sendError(c.st.WriteLater(c, &out))
		if len(c.conn.srv.opts.stats) > 0 {
			workers.SendUnsent(c.conn.h2c) // statistics handlers are next, and may take any time
		} else {
			c.unsent = true
		}
	} else {
		err = c.sendError(c.st.Write(c, &out))
	}
	c.released = err == nil // with the response; release does the rest
	return st, info, err
}

// writeStatus ends the response, without blocking. sendMu is held.
func (c *serverCall) writeStatus(st *status.Status, _ statusTime) (*status.Status, error) {
	var out h2.Out
	out.Ending = h2.End
	if c.state != headerWritten && (st.Code() == codes.OK || len(c.header) > 0) {
		if err := c.putHeader(&out); err != nil {
			st = statusOf(err)
		}
	}
	st = c.putStatus(&out, st)
	return st, c.st.Write(nil, &out) // a failure means that the stream has ended already
}

// putStatus adds the status and the trailer to out, or INTERNAL alone if they are longer than what the client takes, and
// returns the status that it added. That one is counted, and is the error in the stats handlers' End, whose OutTrailer is
// empty then. Interceptors, and the binary log, which is one, have returned before: they saw the handler's status and trailer.
// Nothing is logged, because a client could fill a log by announcing a low limit. sendMu is held.
func (c *serverCall) putStatus(out *h2.Out, st *status.Status) *status.Status {
	if err := c.putEnd(out, st, c.trailer); err != nil {
		c.trailer = nil
		st = replaced(err, st)
		_ = c.putEnd(out, st, nil)
	}
	c.state = headerWritten
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
	case c.state == headerWritten:
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
