package wire

// SetCopyBelow changes a batch's switch-over, for the benchmark that finds it.
func (b *Batch) SetCopyBelow(n int) { b.below = n }

// Size is what the next receive buffer will ask for.
func (r *Reader) Size() int { return r.size }
