package leak

import "github.com/tarn-go/tarn"

// delivery is what goroutines send: a reference or why there is none.
type delivery struct {
	body tarn.Buffer
	err  error
}

func deliveredAndLost(ch chan delivery) (int, error) {
	r := <-ch // want `leak: r from <-ch is not freed on the path that returns at line \d+`
	if r.err != nil {
		return 0, r.err
	}
	return len(r.body.Bytes()), nil
}

func deliveredAndFreed(ch chan delivery) (int, error) {
	r := <-ch
	if r.err != nil {
		return 0, r.err
	}
	defer r.body.Free()
	return len(r.body.Bytes()), nil
}

func deliveredAndFreedOnOnePath(ch chan delivery, limit int) (int, error) {
	r := <-ch // want `leak: r from <-ch is not freed on the path that returns at line \d+`
	if r.err != nil {
		return 0, r.err
	}
	n := len(r.body.Bytes())
	if n > limit {
		return 0, nil
	}
	r.body.Free()
	return n, nil
}

func deliveredUntilClosed(ch chan delivery) error {
	for r := range ch {
		if r.err != nil {
			return r.err
		}
		r.body.Free()
	}
	return nil
}

func deliveredInALoopAndLost(ch chan delivery) (n int) {
	for r := range ch { // want `leak: r from <-ch is not freed before the next iteration of the loop`
		if r.err != nil {
			continue
		}
		n += r.body.Len()
	}
	return n
}

func deliveredBySelect(ch chan delivery, done chan struct{}) int {
	select {
	case r := <-ch: // want `leak: .* is not freed`
		return r.body.Len()
	case <-done:
		return 0
	}
}

func deliveredBySelectAndFreed(ch chan delivery, done chan struct{}) error {
	select {
	case r := <-ch:
		if r.err != nil {
			return r.err
		}
		r.body.Free()
		return nil
	case <-done:
		return nil
	}
}

func deliveredAndReturned(ch chan delivery) (tarn.Buffer, error) {
	r := <-ch
	return r.body, r.err
}

func deliveredAndPassedOn(ch, to chan delivery) { to <- <-ch }

func deliveredAndKept(ch chan delivery, kept *[]delivery) { *kept = append(*kept, <-ch) }

func deliveredAndAppended(ch chan delivery, c *tarn.Chain) error {
	r := <-ch
	if r.err == nil {
		c.Append(r.body)
	}
	return r.err
}

func deliveredToAFunction(ch chan delivery) { takeDelivery(<-ch) }

func deliveredToAPointer(ch chan delivery) {
	r := <-ch
	freeDelivery(&r)
}

// takeDelivery takes ownership of r.
func takeDelivery(r delivery) { r.body.Free() }

func freeDelivery(r *delivery) { r.body.Free() }

// order is an element of a queue, in which kind says whether there is a reference.
type order struct {
	kind int
	body tarn.Buffer
}

func orderByKind(ch chan order) {
	for {
		o := <-ch
		switch o.kind {
		case 0:
			return
		case 1:
			continue
		}
		o.body.Free()
	}
}

func orderLost(ch chan order) int {
	o := <-ch // want `leak: o from <-ch is not freed`
	if o.kind == 0 {
		return 0
	}
	return len(o.body.Bytes())
}

// pair has two references.
type pair struct{ head, body tarn.Buffer }

func pairDelivered(ch chan pair) {
	p := <-ch
	p.head.Free()
	p.body.Free()
}

func pairLost(ch chan pair) int {
	p := <-ch // want `leak: p from <-ch is not freed`
	return p.head.Len() + p.body.Len()
}

func orderKindOnly(ch chan order) int {
	o := <-ch // want `leak: o from <-ch is not freed`
	return o.kind
}

// lentJob is lent to a worker until it answers.
type lentJob struct {
	in   tarn.Buffer
	sums chan int
}

func jobDone(jobs chan lentJob) {
	j := <-jobs
	j.sums <- len(j.in.Bytes())
}

func orderKept(ch chan order, last *order) { *last = <-ch }

func orderInMap(ch chan order, orders map[int]order) {
	o := <-ch
	orders[o.kind] = o
}

func orderToInterface(ch chan order, take func(any)) { take(<-ch) }

func orderToGoroutine(ch chan order) {
	o := <-ch
	go func() { o.body.Free() }()
}

func orderBorrowed(ch chan order) int {
	o := <-ch // want `leak: o from <-ch is not freed`
	return countOrder(o)
}

func countOrder(o order) int { return len(o.body.Bytes()) }

func orderByMethod(ch chan order) {
	o := <-ch
	o.end()
}

func (o order) end() { o.body.Free() }

func orderDeferred(ch chan order) int {
	o := <-ch
	defer o.end()
	return o.kind
}

func orderOfMany(ch chan []order) int { return len(<-ch) }

func orderByPointer(ch chan *order) int { return (<-ch).kind }

func orderRanged(ch chan order, c *tarn.Chain) {
	for o := range ch {
		if o.kind == 0 {
			continue
		}
		c.Append(o.body)
	}
}

func orderRangedAndLost(ch chan order) (n int) {
	for o := range ch { // want `leak: o from <-ch is not freed before the next iteration of the loop`
		n += len(o.body.Bytes())
	}
	return n
}
