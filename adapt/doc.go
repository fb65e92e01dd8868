// Package adapt lets memory of a tarn.Pool be used by libraries that have a pool interface of their
// own: grpc-go's mem.BufferPool, net/http/httputil's BufferPool and Arrow's memory.Allocator. Their
// methods name standard-library types alone, so this package imports none of those libraries.
//
// Those interfaces use []byte and *[]byte, not references, so an adapter has to find the tarn.Buffer
// behind a slice that is put back. It looks the address up among those it has handed out and has not
// yet got back. Any other slice is refused and counted (tarn.Stats.Refused): a foreign slice, an
// interior slice, or a slice that was put back before. Foreign memory is never pooled, and the caller
// keeps the memory that was refused.
//
// # Limits
//
// An address says nothing about who holds it. A slice that is put back twice is refused the second
// time, as long as its memory has not been handed out again in between; after that the second Put
// takes the memory from its new holder. The interfaces do not permit an adapter to distinguish the two,
// except for GRPC on a pool that checks everything (tarn.CheckAll, tarn.CheckGuard), which uses each
// pointer once. Code that uses tarn.Buffer itself does not have this problem: its handles carry a
// generation.
//
// # What it costs
//
// A look-up under a sharded lock for each slice handed out and again when it comes back; no
// allocation in steady state. BenchmarkAdapt in the nested module bench shows it beside the bare pool.
package adapt
