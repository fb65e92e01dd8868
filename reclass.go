package tarn

import "slices"

// class finds the class of a size, or makes it. Slabs of a size belong to one class for good, so
// that a ladder given up and taken again finds its books. The caller holds mu, or makes the pool.
func (p *Pool) class(size int) *class {
	c := p.classes[size]
	if c == nil {
		c = &class{size: size, pool: p}
		p.classes[size] = c
	}
	return c
}

// Classes returns a copy of the ladder in force: bytes, ascending.
func (p *Pool) Classes() []int { return p.ladder.Load().sizes() }

// SetClasses moves the pool to another ladder while it is in use; Get and Free go on without a
// lock. Sizes in both ladders keep their idle slabs; the idle slabs of the others are given up now,
// and their slabs in use once they came home and lay idle. A bad ladder is an error that matches
// ErrClasses, and changes nothing; the ladder in force is no change. Safe for concurrent use.
func (p *Pool) SetClasses(sizes []int) error {
	if err := checkClasses(sizes); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.ladder.Load().sizes()
	if slices.Equal(sizes, old) {
		return nil
	}
	p.ladder.Store(newLadder(sizes, p.class))
	for _, size := range old {
		if _, stays := slices.BinarySearch(sizes, size); !stays {
			p.classes[size].drain()
		}
	}
	return nil
}
