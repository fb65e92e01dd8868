// Package tarn is buffer memory for network programs: pooled, reference-counted, zero-copy.
//
// A [Pool] hands out [Buffer] values. A Buffer is one reference to some bytes of a slab; slicing and
// splitting make more references and copy nothing, and when the last one is freed the slab returns to
// its pool, however it was cut:
//
//	 Get(11)                 Split(5)                        slab, class 64
//	┌──────────────┐        ┌───────┐ ┌──────┐       ┌─────┬──────┬─────────────────┐
//	│ b            │   →    │ head  │ │ tail │   ⇒   │hello│ world│    tail room    │
//	└──────┬───────┘        └───┬───┘ └──┬───┘       └─────┴──────┴─────────────────┘
//	       │                    │        └────────────────────▲       count: 2
//	       └────────────────────┴─────────────▲               generation: 7
//
// A [Chain] is a rope of Buffers, a [Writer] fills one from small writes, an [Arena] cuts many small
// Buffers out of one slab.
//
// # Ownership, in five rules
//
//  1. A Buffer value is one reference. Get, Ref, Slice and Split hand you references; each is
//     freed exactly once.
//  2. A callee takes ownership only where its doc says "takes ownership"; then it frees on every
//     path, errors included. Otherwise it borrows for the call.
//  3. Bytes is valid until that reference is freed. Write to it only while Unique.
//  4. No function returns something to free together with a non-nil error.
//  5. References to the same memory may live in different goroutines; one reference value belongs
//     to one goroutine at a time.
//
// Comments cite them by number.
//
// # How comments say who frees
//
// Doc comments state it in these words, which the analyser tarnvet (module tarn/vet) reads and checks
// against the code: a function "takes ownership of b", or "takes ownership" (of all it is given);
// "otherwise b stays the caller's" where that depends on success; it "borrows b", or "b is borrowed",
// for the call; it "returns" something "to be freed" by the caller, or something "borrowed", and bytes that are
// "valid until the next call of any method of r" where r is its receiver. An
// implementation does what the comment of the interface's method says. An exported function
// that takes a Buffer says one or the other.
//
// # What breaking them does
//
// A Buffer remembers the generation of its slab, and a slab whose last reference is freed moves on to
// the next generation. So whatever reads, writes, shares or frees through a Buffer whose slab was freed
// panics with a [*Misuse], in every build and at every check level, before any byte or count of the next
// owner is touched. Narrow, Join and Shrink may hand such a Buffer on; see [Buffer].
//
// A reference used after its own Free while others to the same slab live is not always found: the
// slab's one word counts references and identifies none. As long as references are freed in order,
// the last made first, or pieces of a Split of Get's reference or of an Arena from the front, every
// second Free and every use of one freed is caught at once. After a Free out of order, or a Split of a
// reference of Ref or Slice, this does not hold until the slab's next Get: a second Free then ends
// another reference, which panics when it is used or freed. TestShareOfWrongUsesCaught makes random wrong
// uses, and fails if fewer of them than this are found at once:
//
//	                     freed last made first    freed in any order
//	off, sampled: Pool           78 % (unsplit: 100)    27 %
//	off, sampled: Arena          98 % (unsplit: 100)    14 %
//	all, guard                  100 %                  100 %
//
// [CheckAll] gives each reference an identity and names who made and who freed it. No Buffer can
// detect the use of a slice kept from Bytes beyond Free; [CheckGuard] makes reading it fault.
//
// # Limitations
//
// A Buffer that is never freed costs its slab, which the garbage collector takes; it is counted in
// [Stats].Leaked. A small view keeps its whole slab from the pool until freed; see [Buffer.Pinned] and
// [Buffer.Shrink]. A slab can have 2^24 references at once. Under [CheckGuard] the pages of a Buffer that is
// never freed stay mapped.
package tarn
