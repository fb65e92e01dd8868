//go:build amd64 && !race && !tarn_safe

package publish

// Store stores v in w with a plain move.
//
// It is right where the caller is the only writer of w and orders nothing by this store: others load
// w atomically and may see the old word or the new one. Proof: w is a machine word, and aligned as
// the compiler aligns every uint64 of amd64; the Go memory model guarantees that a load of a machine
// word sees a word that was stored whole, even where store and load race ("Implementation
// Restrictions for Programs Containing Data Races"). The race detector rightly asks for more than we
// need here, so its builds, and those tagged tarn_safe, use sync/atomic.
func Store(w *uint64, v uint64) { *w = v }
