package smb

import (
	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/smb/internal/crypt"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// request is the body of a message, as package proto encodes it.
type request interface {
	Size() int
	Append(dst []byte) []byte
}

// simple is the body of LOGOFF, TREE_DISCONNECT, ECHO and CANCEL.
type simple struct{}

func (simple) Size() int                { return proto.SimpleSize }
func (simple) Append(dst []byte) []byte { return proto.AppendSimple(dst) }

type callState uint8

const (
	callIdle      callState = iota // belongs to its caller, not registered
	callPending                    // registered; the final reply has not come
	callReceiving                  // the receiver is writing to dst; nobody else may
	callDone                       // reply or err is there, done is signalled
	callAbandoned                  // its caller went away; the receiver recycles it
)

// protection is how a request travels, and so how its reply must.
type protection uint8

const (
	inClear protection = iota
	signed             // signed, in the clear
	sealed             // encrypted
)

// call is a request slot: one request, its reply, and the way to wait for it. Slots are
// recycled by their connection. A slot belongs to its caller, save for the fields under
// the connection's lock while it is registered.
//
// A call knows its connection: it is finished, verified, judged and released with that
// connection's keys and tables, whichever connection its caller uses meanwhile.
type call struct {
	c       *conn // never changes
	cmd     proto.Command
	tree    uint32
	guard   protection
	force   bool // sign although the session does not sign everything
	flags   proto.Flags
	expect  int    // bytes the reply may carry beyond fixed parts
	charge  int    // credits it holds
	mid     uint64 // MessageId
	session uint64 // session id sent, which the reply must repeat
	dst     []byte // READ: where the data belongs, borrowed from the caller
	payload []byte // WRITE: the data, borrowed from the caller until it is sent

	// Guarded by ring.mu while registered.
	state    callState
	divert   bool   // the caller wants dst back: receive into scratch
	answered bool   // an interim reply came and settled the credits
	async    uint64 // AsyncId of the interim reply, for CANCEL

	// The reply, the caller's after done.
	status proto.Status
	opened bool        // the reply came encrypted
	reply  tarn.Buffer // the whole message, unless placed
	direct bool        // the data is in dst[:placed], the fixed part in head
	placed int
	head   [proto.ReadResponsePrefix]byte
	err    error

	// late is run, in a goroutine of its own, on the reply of an abandoned call that
	// succeeded: it undoes what nobody waits for.
	late func(*call)
	// preauth takes in the request as it is sent (3.1.4.4.1 of 3.1.1).
	preauth *crypt.Preauth

	// The next request of the same caller, which waits for it right after this one.
	mate    *call
	follows bool // it is such a mate

	done  chan struct{} // capacity 1: signalled once a use
	read  proto.ReadRequest
	write proto.WriteRequest
	rest  [1][]byte // scratch for the pieces of a signed message
	wait  creditWait
	next  *call // in the free list
}

// reset prepares a slot for its next use and drops what it pinned.
func (cl *call) reset() {
	cl.reply.Free()
	*cl = call{c: cl.c, done: cl.done, wait: cl.wait}
}

// message is the reply's message, header included; valid until the call is released.
func (cl *call) message() []byte { return cl.reply.Bytes() }

// malformed ends the connection over the reply in cl, which a decoder refused, and
// releases cl.
func (cl *call) malformed(err error) error {
	err = lost(err)
	cl.c.fail(err)
	cl.release()
	return err
}

// failure is the error that the reply's status stands for, nil for success. Warnings
// are failures to all but those who expect them.
func (cl *call) failure() error {
	if cl.status == proto.StatusSuccess {
		return nil
	}
	err := &ResponseError{Command: cl.cmd.String(), Status: Status(cl.status), link: detourOf(cl)}
	if cl.status == proto.StatusNetworkSessionExpired || cl.status == proto.StatusUserSessionDeleted {
		// The server wants the user to log in again, which is what a new connection does.
		gone := &connError{ErrConnLost, err}
		cl.c.fail(gone)
		return gone
	}
	return err
}
