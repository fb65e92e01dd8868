package conn

import (
	"context"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

const (
	// heapBlock is how many bytes growHeap has the server allocate.
	heapBlock = 4 << 20
	// heapTransfer is how many bytes a READ or WRITE moves for growHeap to be worth a request.
	heapTransfer = 512 << 10
)

// growHeap has the server allocate heapBlock bytes and free them, once for each connection, before
// the first READ or WRITE of at least heapTransfer bytes is sent for the file id.
//
// It is for servers on glibc, as Samba on Linux: free memory at the end of the heap goes back to the
// system when it is more than twice the longest block that was allocated by itself and freed so far
// (mallopt(3), M_TRIM_THRESHOLD). With requests of 1 MiB that is 2 MiB, less than a few of them take,
// so that the server may return and fault in again the memory of nearly every one: 0.70 to 0.83 ms of
// smbd's processor time for an encrypted READ of 1 MiB with eight under way on a fresh connection instead
// of 0.53 ms. To other servers it is a query like any other.
//
// The request is a QUERY_INFO that lets its reply have as many bytes; it has 56. The reply is not waited for, and
// what becomes of the request does not matter.
func (t *Tree) growHeap(ctx context.Context, id proto.FileID, n int) {
	c := t.c
	if n < heapTransfer || c.agreed.serverTransact < heapBlock || c.heapGrown.Swap(true) {
		return
	}
	cost := c.charged(heapBlock)
	mid, charge, ok := c.credits.try(cost, cost)
	if !ok {
		c.heapGrown.Store(false) // with the next transfer
		return
	}
	cl := t.Call(proto.CommandQueryInfo)
	cl.Expect = 56 // a structure of ClassNetworkOpen
	req := proto.QueryInfoRequest{Type: proto.InfoFile, Class: proto.ClassNetworkOpen, FileID: id, Output: heapBlock}
	if c.startWith(ctx, cl, &req, t.protection, mid, charge) == nil {
		cl.disregard()
	}
}

// disregard gives a call up that was sent, and whose reply is not needed.
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
		cl.Release()
	}
}
