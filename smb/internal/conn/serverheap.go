package conn

import (
	"context"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

const (
	// heapBlock is how many bytes growHeap makes the server allocate: the most that Samba allows a reply.
	heapBlock = 8 << 20
	// heapTransfer is how many bytes a READ or WRITE must move for growHeap to be worth a request.
	heapTransfer = 512 << 10
)

// growHeap makes the server allocate heapBlock bytes and free them, once for each connection, before the first
// READ or WRITE of at least heapTransfer bytes is sent for the file id.
//
// It is for servers on glibc, as Samba on Linux: free memory at the end of the heap is returned to the system
// when it exceeds twice the longest block that was mapped separately and freed so far (mallopt(3),
// M_TRIM_THRESHOLD). With requests of 1 MiB that limit is 2 MiB, less than a few requests take, so the server may
// return the memory of nearly every request and fault it in again: with eight requests of 1 MiB in flight, smbd
// has 30 to 75 page faults a request on average, 8 to 20 after a block of 4 MiB, and 2 to 6 after 8 MiB. Other
// servers answer it like any other query.
//
// The request is a QUERY_INFO that allows its reply that many bytes; the reply has 56. It is not waited for, and
// its result is ignored.
func (t *Tree) growHeap(ctx context.Context, id proto.FileID, n int) {
	c := t.c
	if n < heapTransfer || c.agreed.serverTransact < heapBlock || c.heapGrown.Swap(true) {
		return
	}
	cost := c.charged(heapBlock)
	mid, charge, ok := c.credits.try(cost, cost)
	if !ok {
		c.heapGrown.Store(false) // try again with the next transfer
		return
	}
	cl := t.Call(proto.CommandQueryInfo)
	cl.Expect = 56 // a structure of ClassNetworkOpen
	req := proto.QueryInfoRequest{Type: proto.InfoFile, Class: proto.ClassNetworkOpen, FileID: id, Output: heapBlock}
	if c.startWith(ctx, cl, &req, t.protection, mid, charge) == nil {
		cl.disregard()
	}
}

// disregard gives up a call that was sent and whose reply is not needed.
func (cl *Call) disregard() {
	c := cl.c
	c.ring.mu.Lock()
	pending := cl.state == callPending
	if pending {
		cl.state = callAbandoned
	}
	c.ring.mu.Unlock()
	if !pending {
		<-cl.done
		c.discardReply(cl)
	}
}
