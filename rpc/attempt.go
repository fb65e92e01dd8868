package rpc

import (
	"context"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
)

// attempt is one try of a streaming call, over a carrier: a *grpcAttempt over a stream of HTTP/2, a *webAttempt over a request of HTTP and
// its response. A clientStream decides which attempt follows which, and knows nothing of carriers; a unary call over gRPC has its attempt by
// its type, so that it takes no memory for its call.
//
// An attempt is answered when the caller may have seen something of the response; then no other replaces it. It has ended when nothing more
// comes. Its methods may be called concurrently, except that one goroutine at a time opens and writes, and one receives. They take values, as
// pointers would put each message of a stream on the heap.
type attempt interface {
	outcome

	// connect finds what the attempt needs before it can be opened.
	connect(c *call) error
	// open begins the attempt with out, which is the whole request or nothing of it. It takes ownership of the memory in out, on every path
	// (rule 2). On error the attempt has ended, and seen says how far the server got.
	open(c *call, out h2.Out) (seen progress, err error)
	// write sends out. It takes ownership of the memory in out, on every path (rule 2). On error the attempt has ended or is about to.
	write(ctx context.Context, out h2.Out) error
	// interrupt makes a write of an attempt that has ended return.
	interrupt()

	// waitHeader waits until the attempt has been answered or has ended, or done is closed, and reports whether it has been answered with a
	// header, which the caller then may see.
	waitHeader(done <-chan struct{}) bool
	// waitEnd waits, after a write that has failed, until outcome says why; false: done was closed before that.
	waitEnd(done <-chan struct{}) bool
	// next waits for the next message, which the caller frees. The error is the refusal of the message, or io.EOF or errStatus at the end.
	next() received
	// refusal is the status error for a message that next has refused.
	refusal(r received, limit int) error
	// decompressor returns the compressor of a message; nil when that is not compressed.
	decompressor(k message.Kind, ci *callInfo) (encoding.Compressor, error)
	// decoded is called when a message has been decoded to v.
	decoded(v any)

	// answered reports whether the attempt has been answered.
	answered() bool
	// ended returns the attempt's status, nil being OK, and when it is not the server's, how far the server got. It is complete when next or
	// waitEnd has reported the end.
	ended() (*status.Status, progress)
	// abort ends the attempt with st, unless it has ended.
	abort(st *status.Status)
	// release frees everything that the attempt holds, and resets what has not ended. It is called once.
	release()

	// statsSent returns the function that reports a message that the attempt has sent to the statistics handlers. These three are called only
	// when there are handlers.
	statsSent(c *call) func(v any, info payloadInfo)
	statsInHeader(c *call)
	statsEnd(c *call, err error)
}

var (
	_ attempt = (*grpcAttempt)(nil)
	_ attempt = (*webAttempt)(nil)
)
