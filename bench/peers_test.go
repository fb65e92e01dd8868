package bench

import (
	"math/bits"
	"sync"
	"testing"

	"google.golang.org/grpc/mem"
)

// sink keeps what a benchmark computes from being optimised away.
var sink int

// nozero is a mem.BufferPool with the tiers of grpc-go's default pool that does not zero. grpc-go's own
// is not exported (grpc-go #8790), so a user has to write it.
type nozero struct {
	tiers [65]*sync.Pool // by bits.Len(length-1); of *[]byte
	size  [65]int
}

func newNozero() *nozero {
	p := new(nozero)
	from := 0
	for _, exp := range []int{8, 12, 14, 15, 20} {
		tier := new(sync.Pool)
		for ; from <= exp; from++ {
			p.tiers[from], p.size[from] = tier, 1<<exp
		}
	}
	return p
}

func (p *nozero) Get(n int) *[]byte {
	i := bits.Len(uint(max(n, 1) - 1))
	tier := p.tiers[i]
	if tier == nil {
		b := make([]byte, n)
		return &b
	}
	if b, ok := tier.Get().(*[]byte); ok {
		*b = (*b)[:n]
		return b
	}
	b := make([]byte, n, p.size[i])
	return &b
}

func (p *nozero) Put(b *[]byte) {
	i := bits.Len(uint(max(cap(*b), 1) - 1))
	if tier := p.tiers[i]; tier != nil && cap(*b) == p.size[i] {
		tier.Put(b)
	}
}

var _ mem.BufferPool = (*nozero)(nil)

// grpcTable is the look-up of grpc-go's BinaryTieredBufferPool restated, since the pool's own cannot
// be called without taking a buffer: the exponent of the power of two above the length (below the
// capacity, to put back), through a table, to the pool.
type grpcTable struct {
	next, previous []int // by exponent; -1: none
	pools          []grpcTier
	limit          int
}

type grpcTier interface{ size() int }

type grpcSized int

func (s grpcSized) size() int { return int(s) }

func newGRPCTable(exps ...int) *grpcTable {
	t := &grpcTable{limit: 1 << exps[len(exps)-1]}
	for i, exp := range exps {
		for len(t.next) <= exp {
			t.next = append(t.next, i)
		}
		for len(t.previous) < exp {
			t.previous = append(t.previous, i-1)
		}
		t.pools = append(t.pools, grpcSized(1<<exp))
	}
	t.previous = append(t.previous, len(exps)-1)
	return t
}

func (t *grpcTable) forGet(n int) grpcTier {
	if n == 0 || n > t.limit {
		return nil
	}
	return t.pools[t.next[bits.Len(uint(n-1))]]
}

func (t *grpcTable) forPut(n int) grpcTier {
	if n == 0 || n > t.limit {
		return nil
	}
	i := t.previous[bits.Len(uint(n))-1]
	if i < 0 {
		return nil
	}
	return t.pools[i]
}

func TestGRPCTable(t *testing.T) {
	table := newGRPCTable(8, 12)
	for _, c := range []struct {
		n        int
		get, put grpcTier
	}{
		{0, nil, nil}, {1, grpcSized(256), nil}, {255, grpcSized(256), nil}, {256, grpcSized(256), grpcSized(256)},
		{257, grpcSized(4096), grpcSized(256)}, {4095, grpcSized(4096), grpcSized(256)},
		{4096, grpcSized(4096), grpcSized(4096)}, {4097, nil, nil},
	} {
		if g, p := table.forGet(c.n), table.forPut(c.n); g != c.get || p != c.put {
			t.Errorf("%d: get %v put %v, want %v %v", c.n, g, p, c.get, c.put)
		}
	}
}
