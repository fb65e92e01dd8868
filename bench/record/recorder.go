package main

import (
	"runtime/metrics"
	"sync"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/adapt"
	"github.com/tarn-go/tarn/sizing"
)

// lender is the interface by which grpc and the programs here get buffers; adapt.GRPC returns one for a pool.
type lender interface {
	Get(n int) *[]byte
	Put(b *[]byte)
}

// recorder passes on another lender's buffers and records each Get and Put. It is safe for concurrent use.
type recorder struct {
	pool *tarn.Pool
	from lender

	mu     sync.Mutex
	events []sizing.Event
	out    map[*byte]int  // get numbers of the buffers out, by the address of their first byte
	loans  map[uint64]int // the same of loans that a pool reported, by number
	gets   int
	seen   uint64 // collection cycles noted
	sample []metrics.Sample
}

func newRecorder(pool *tarn.Pool) *recorder {
	r := &recorder{pool: pool, from: adapt.GRPC(pool), out: map[*byte]int{}, loans: map[uint64]int{}, sample: []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}}
	r.seen = r.cycles()
	return r
}

// Get borrows n bytes.
func (r *recorder) Get(n int) *[]byte {
	b := r.from.Get(n)
	if n > 0 {
		r.lent(*b)
	}
	return b
}

// lent notes a get.
func (r *recorder) lent(b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noteCycles()
	r.events = append(r.events, sizing.Event{Op: sizing.OpGet, Arg: len(b)})
	r.out[first(b)] = r.gets
	r.gets++
}

// Put gives back what Get lent.
func (r *recorder) Put(b *[]byte) {
	r.back(*b)
	r.from.Put(b)
}

// back notes the end of a loan.
func (r *recorder) back(b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if cap(b) == 0 {
		return // append has moved it to other memory since
	}
	key := first(b)
	get, ok := r.out[key]
	if !ok {
		return
	}
	delete(r.out, key)
	r.events = append(r.events, sizing.Event{Op: sizing.OpFree, Arg: get})
}

// noteCycles adds an event for each collection that began since its last check. It does not check at every get,
// because reading the counter takes longer than a get.
func (r *recorder) noteCycles() {
	if r.gets%64 != 0 {
		return
	}
	for now := r.cycles(); r.seen < now; r.seen++ {
		r.events = append(r.events, sizing.Event{Op: sizing.OpCycle})
	}
}

func (r *recorder) cycles() uint64 {
	metrics.Read(r.sample)
	return r.sample[0].Value.Uint64()
}

// trace returns what was noted so far.
func (r *recorder) trace(notes ...string) sizing.Trace {
	r.mu.Lock()
	defer r.mu.Unlock()
	return sizing.Trace{Notes: notes, Events: r.events}
}

// first identifies a buffer by where it begins; lent buffers are never empty and never overlap.
func first(b []byte) *byte { return &b[:1][0] }
