package tarn

// Loan is the beginning or the end of a slab's time out of its pool, as PoolConfig.Observe receives
// it. An exact trace consists of Loans; a Histogram has only samples.
type Loan struct {
	Number uint64 // counts the pool's Gets from 1; the same at both ends
	Size   int    // bytes asked for, at the beginning; 0 at the end
}
