package conn

import (
	"sync/atomic"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/smb/internal/crypt"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// Request is the body of a message, as package proto encodes it.
type Request interface {
	Size() int
	Append(dst []byte) []byte
}

// simple is the body of LOGOFF, TREE_DISCONNECT, ECHO and CANCEL.
type simple struct{}

func (simple) Size() int                { return proto.SimpleSize }
func (simple) Append(dst []byte) []byte { return proto.AppendSimple(dst) }

type callState uint8

const (
	callIdle      callState = iota // owned by its caller, not registered
	callPending                    // registered; the final reply has not come
	callReceiving                  // the receiver is writing to dst; no other goroutine may
	callDone                       // reply or err is set, done is signalled
	callAbandoned                  // its caller has returned; the receiver releases it
)

// protection is how a request is protected, and how its reply must be.
type protection uint8

const (
	inClear protection = iota
	signed             // signed, not encrypted
	sealed             // encrypted
)

// Call is one request and its reply, in a slot. Slots are reused by their connection. A slot belongs to its
// caller, except that the ring's lock guards some fields while it is registered.
//
// A call keeps its connection: it is finished, verified and released with that connection's keys and tables,
// whichever connection its caller uses meanwhile.
type Call struct {
	request
	slot
	reply
}

// request is what a call sends. The caller sets the exported fields before the call is sent; all are unchanged while it is registered,
// unless their comments say otherwise.
type request struct {
	Expect  int    // bytes that the reply may carry beyond its fixed parts
	Payload []byte // WRITE: the data, borrowed from the caller until it is sent
	// Undo is run, in its own goroutine, on the successful reply of a call that its caller had given up: it
	// reverts the operation on the server. nil: nothing is to be reverted.
	Undo func(*Call)
	// Detached is set for a request that the server must receive although its caller gives up, such as CLOSE. When its
	// context ends while the request waits for credits or for the socket, the caller returns at once, and the connection
	// sends the request as soon as it can. It is never cancelled. Its late reply is ignored, unless the session had expired:
	// then the connection sends the request again. It has no Payload, and its body is not changed afterwards.
	Detached bool
	// Effect is what the request does to a file; nil: nothing. Of Detached requests it is nil.
	Effect Effect

	cmd         proto.Command
	tree        uint32
	on          *Tree // nil: the request is on no share
	protection  protection
	force       bool // sign although the session does not sign everything
	flags       proto.Flags
	charge      int        // credits it holds
	mid         uint64     // MessageId
	session     uint64     // session id sent, which the reply must repeat
	epoch       uint64     // of the session's authentication when it was sent
	expirations uint8      // how often it found the session expired
	dst         []byte     // READ: destination of the data, borrowed from the caller
	req         Request    // Detached: what to send later, or again
	least       protection // of req
	untimed     bool       // watchRequests leaves it out

	// preauth is updated with the request as it is sent (3.1.4.4.1 of 3.1.1).
	preauth *crypt.Preauth

	read  proto.ReadRequest
	write proto.WriteRequest
}

// slot is the place of a call among those of its connection.
type slot struct {
	c    *Conn         // never changes
	done chan struct{} // capacity 1: signalled once a use

	// Guarded by ring.mu while registered.
	state        callState
	givenUp      bool   // Effect.GivenUp was called, and Answered was not
	acknowledged bool   // an interim reply came and its credits are counted
	async        uint64 // AsyncId of the last interim reply, for CANCEL
	round        uint64 // of watchRequests before it was registered
	age          uint8  // rounds of watchRequests without a reply

	sent atomic.Bool // its frame has been written
	wait creditWait
	next *Call     // in the free list
	rest [1][]byte // scratch for the pieces of a signed message
}

// reply is the answer to a request, the caller's after slot.done.
type reply struct {
	// Status is the reply's status; the caller may read it once the call is done.
	Status proto.Status

	opened bool        // it came encrypted
	buf    tarn.Buffer // the complete message, unless direct
	direct bool        // the data is in dst[:placed], the fixed part in head
	placed int
	head   [proto.ReadResponsePrefix]byte
	err    error
}

// clear prepares a slot for its next use and drops its references to memory.
func (cl *Call) clear() {
	cl.buf.Free()
	*cl = Call{slot: slot{c: cl.c, done: cl.done, wait: cl.wait}}
}

// Release makes a slot available again whose reply is not needed any more.
func (cl *Call) Release() { cl.c.ring.release(cl) }

// Message is the reply's message, header included; valid until the call is released.
func (cl *Call) Message() []byte { return cl.buf.Bytes() }

// Ready reports whether the call is done; false for a nil call.
func (cl *Call) Ready() bool { return cl != nil && len(cl.done) > 0 }

// Malformed ends the connection because a decoder refused the reply in cl, and releases cl.
func (cl *Call) Malformed(err error) error {
	err = cl.c.malformed(err)
	cl.Release()
	return err
}

// failure is the error for the reply's status, nil for success. Warnings are failures unless the caller
// expects them.
func (cl *Call) failure() error {
	switch cl.Status {
	case proto.StatusSuccess:
		return nil
	case proto.StatusUserSessionDeleted, proto.StatusNetworkSessionExpired:
		// The session is not valid any more; a new connection logs in again.
		return cl.refuseSession()
	case proto.StatusNetworkNameDeleted:
		if cl.on != nil {
			return cl.refuseTree()
		}
	}
	return cl.c.refused(cl)
}

// refuseTree ends the tree because the server reports that it has closed the share. The connection stays.
func (cl *Call) refuseTree() error {
	err := &connError{ErrLost, cl.c.refused(cl)}
	cl.on.lost.CompareAndSwap(nil, err)
	return err
}

// refused is the error of a request that the server refused.
func (c *Conn) refused(cl *Call) error {
	return c.cfg.Refused(Refusal{
		Command: cl.cmd, Status: cl.Status, Dialect: c.agreed.Dialect, Message: cl.Message(),
	})
}
