package tarn

// Loan is the beginning or the end of a slab's time out of its pool, as PoolConfig.Observe is told of
// it: what an exact trace is made of, where a Histogram has only samples.
type Loan struct {
	Number uint64 // counts the pool's Gets from 1; the same at both ends
	Size   int    // bytes asked for, at the beginning; 0 at the end
}

// observe tells of a loan that begins.
func (p *Pool) observe(s *slab, n int) {
	if p.config.Observe == nil {
		return
	}
	s.loan = p.loans.Add(1)
	s.due |= dueObserve
	p.config.Observe(Loan{Number: s.loan, Size: n})
}
