// Package sizing proposes size classes. From a histogram of requested sizes it computes the ladder
// of k classes that wastes the fewest bytes, exactly; it draws the curve of waste against k and
// finds its knee; it replays a recorded trace against any ladder and retention bound; and, where a
// program asks for it, it moves a pool's ladder while the program runs.
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
