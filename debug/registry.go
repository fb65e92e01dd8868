package debug

import (
	"slices"
	"sync"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/debug/endpoint"
)

// Source is a set of pools that may change at any time. A *Registry is one. Pools is called from
// several goroutines at once and returns a slice that the caller may keep; nil pools are left out.
//
// A Source that has a method Endpoints() []endpoint.Source as well, which a *Registry has, also shows
// servers and clients.
type Source interface {
	Pools() []*tarn.Pool
}

// endpointSource is what a Source of servers and clients has beside Pools.
type endpointSource interface {
	Endpoints() []endpoint.Source
}

// Registry is a set of pools, and of servers and clients, that a program changes while it runs: what is added after a handler or a
// collector was made appears in it. The zero value is empty and ready. Its methods are safe for
// concurrent use. A pool that is in a Registry is not collected, so a short-lived pool is removed when
// its use ends.
type Registry struct {
	mu        sync.Mutex
	pools     []*tarn.Pool
	endpoints []endpoint.Source
}

// NewRegistry returns a Registry of pools; nil pools are left out.
func NewRegistry(pools ...*tarn.Pool) *Registry {
	r := new(Registry)
	r.Add(pools...)
	return r
}

// Add puts pools at the end of the set. A pool that is in it already, or nil, is left out.
func (r *Registry) Add(pools ...*tarn.Pool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range pools {
		if p != nil && !slices.Contains(r.pools, p) {
			r.pools = append(r.pools, p)
		}
	}
}

// Remove takes pools out of the set; those that are not in it are passed over.
func (r *Registry) Remove(pools ...*tarn.Pool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pools = slices.DeleteFunc(r.pools, func(p *tarn.Pool) bool { return slices.Contains(pools, p) })
}

// Pools returns the pools of the set in the order they were added.
func (r *Registry) Pools() []*tarn.Pool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.pools)
}

// AddEndpoints puts servers and clients at the end of the set: *rpc.Server, *rpc.ClientConn,
// *h2http.Server, *h2http.Transport. One that is in it already, or nil, is left out. An [endpoint.Observer] counts calls
// from then on. Sources must be comparable.
func (r *Registry) AddEndpoints(sources ...endpoint.Source) {
	for _, s := range r.add(sources) {
		if o, ok := s.(endpoint.Observer); ok {
			o.Observe() // which may use r
		}
	}
}

// add puts those of sources at the end of the set that are not in it yet, and returns them.
func (r *Registry) add(sources []endpoint.Source) []endpoint.Source {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := len(r.endpoints)
	for _, s := range sources {
		if s != nil && !slices.Contains(r.endpoints, s) {
			r.endpoints = append(r.endpoints, s)
		}
	}
	return slices.Clone(r.endpoints[before:])
}

// RemoveEndpoints takes servers and clients out of the set; those that are not in it are passed over.
func (r *Registry) RemoveEndpoints(sources ...endpoint.Source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endpoints = slices.DeleteFunc(r.endpoints, func(s endpoint.Source) bool { return slices.Contains(sources, s) })
}

// Endpoints returns the servers and clients of the set in the order they were added.
func (r *Registry) Endpoints() []endpoint.Source {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.endpoints)
}
