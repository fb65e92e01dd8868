// Package sizing proposes size classes. From a histogram of requested sizes it computes the k classes
// that waste the fewest bytes, exactly; it computes the waste of the best 1, 2, 3, … classes, and the number beyond
// which returns diminish (the knee of that curve); it replays a recorded trace against any
// classes and retention bound; and, where a program asks for it, it changes a pool's classes while the program runs.
//
// A ladder is a pool's size classes in ascending order.
//
// Waste is what rounding up costs: a request of s bytes served by a class of c bytes wastes c-s.
// A histogram weighs each size by how often it was asked for, so the ladder found is the one that
// wastes the least over the recorded requests; sizes are assumed to live equally long, because a
// histogram does not say otherwise. [Simulate] does not assume it: it replays each request until
// its release.
//
// A pool's histogram is made of buckets, each known by its upper edge. A request counts as large as
// its bucket's edge, so a proposed class always covers every request of the buckets under it.
//
// Everything here works on copies: no function of this package keeps a reference to a buffer, and
// only an [Adapter] ever changes a pool.
package sizing
