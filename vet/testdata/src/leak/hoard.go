package leak

import "github.com/tarn-go/tarn"

// References in slices, arrays and structs of a function's own.

func rotated(p *tarn.Pool) {
	var held [8]tarn.Buffer
	for n := 0; ; n++ {
		held[n%len(held)] = p.Get(n) // want `leak: held takes references here, and nothing in this function frees its elements`
	}
}

func rotatedAndFreed(p *tarn.Pool) {
	var held [8]tarn.Buffer
	for n := 0; ; n++ {
		held[n%len(held)].Free()
		held[n%len(held)] = p.Get(n)
	}
}

func moved(p *tarn.Pool, n int) {
	var held []tarn.Buffer
	for i := range n {
		held = append(held, p.Get(i)) // want `leak: the references collected in held are not freed`
		if len(held) > 100 {
			held[0] = held[len(held)-1]
			held = held[:len(held)-1]
		}
	}
}

func chains(p *tarn.Pool, n int) {
	streams := make([]tarn.Chain, 10)
	for i := range n {
		streams[i%10].Append(p.Get(i)) // want `leak: a slice takes references here`
	}
}

func chainsFreed(p *tarn.Pool, n int) {
	streams := make([]tarn.Chain, 10)
	for i := range n {
		streams[i%10].Append(p.Get(i))
	}
	for i := range streams {
		streams[i].Free()
	}
}

func listed(p *tarn.Pool) {
	head, tail := p.Get(100).Split(10)
	for _, c := range []struct {
		b    tarn.Buffer
		want string
	}{{head, "head"}, {tail, "tail"}} {
		use(c.b.Bytes())
	}
	head.Free()
	tail.Free()
}

func kept(p *tarn.Pool, into func([]tarn.Buffer)) {
	keys := make([]tarn.Buffer, 3)
	for i := range keys {
		keys[i] = p.Get(8)
	}
	into(keys)
}

func capturedSlice(p *tarn.Pool) {
	keys := make([]tarn.Buffer, 3)
	defer func() {
		for _, k := range keys {
			k.Free()
		}
	}()
	for i := range keys {
		keys[i] = p.Get(8)
	}
}

// A joiner takes messages from pieces.
type joiner struct {
	one  tarn.Buffer
	more tarn.Chain
}

// add takes ownership of b.
func (j *joiner) add(b tarn.Buffer) {
	if j.one.IsZero() && j.more.Len() == 0 {
		j.one = b
		return
	}
	if !j.one.IsZero() {
		j.more.Append(j.one)
		j.one = tarn.Buffer{}
	}
	j.more.Append(b)
}

func (j *joiner) next(n int) (tarn.Buffer, error) { return j.more.Next(n) }

func (j *joiner) with(b tarn.Buffer) *joiner {
	j.more.Append(b)
	return j
}

func (j *joiner) Free() {
	j.one.Free()
	j.one = tarn.Buffer{}
	j.more.Free()
}

func joined(p *tarn.Pool) {
	var j joiner
	j.add(p.Get(10)) // want `leak: j takes ownership of a reference here, and nothing in this function frees j or passes it on`
	j.add(p.Get(10))
	b, err := j.next(20)
	if err == nil {
		b.Free()
	}
}

func joinedAndFreed(p *tarn.Pool) {
	var j joiner
	defer j.Free()
	j.add(p.Get(10))
}

func joinedInLiteral(p *tarn.Pool) {
	var j joiner
	defer func() { j.Free() }()
	j.add(p.Get(10))
}

func joinedAndPassed(p *tarn.Pool, to func(*joiner)) {
	var j joiner
	j.add(p.Get(10))
	to(&j)
}

func joinedAndReturned(p *tarn.Pool) joiner {
	var j joiner
	j.add(p.Get(10))
	return j
}

func joinedByAnotherName(p *tarn.Pool) {
	var j joiner
	j.add(p.Get(10))
	k := j.with(p.Get(10))
	k.Free()
}

func joinedAndTaken(p *tarn.Pool) (c tarn.Chain) {
	var j joiner
	j.add(p.Get(10))
	c.AppendChain(&j.more)
	return c
}

// A goroutine that is given a reference owns it.

func handedIn(p *tarn.Pool, fail func() bool) {
	b := p.Get(10) // want `leak: b from p.Get is not freed`
	go func() {
		if fail() {
			return
		}
		b.Free()
	}()
}

func handedInAndFreed(p *tarn.Pool, fail func() bool) {
	b := p.Get(10)
	go func() {
		defer b.Free()
		if fail() {
			return
		}
		use(b.Bytes())
	}()
}

func handedInAndShared(p *tarn.Pool, fail func() bool, done chan struct{}) {
	b := p.Get(10)
	go func() {
		defer close(done)
		if fail() {
			return
		}
		use(b.Bytes())
	}()
	<-done
	b.Free()
}

// What comments say of another function counts, too.

// sendAll takes ownership of b.
func (j *joiner) sendAll(b tarn.Buffer, fail bool) error {
	return j.sendLocked(b, fail)
}

// sendLocked is sendAll. A lock is held.
func (j *joiner) sendLocked(b tarn.Buffer, fail bool) error { // want `leak: sendLocked takes ownership of b, as its comment says`
	if fail {
		return errShort
	}
	j.add(b)
	return nil
}

type envelope struct {
	name string
	body tarn.Buffer
}

// open takes ownership of the body in e.
func open(e *envelope, fail bool) error { // want `leak: open takes ownership of e`
	if fail {
		return errShort
	}
	e.body.Free()
	return nil
}

// mail sends e, which it takes ownership of, unless it is late.
func mail(e *envelope, late bool) error { // want `leak: mail takes ownership of e`
	if late {
		return errShort
	}
	e.body.Free()
	return nil
}

// A chain that is too short keeps what it has.

func tooShort(p *tarn.Pool) error {
	var c tarn.Chain
	c.Append(p.Get(10)) // want `leak: c holds what this call put in, and is not freed on the path that returns`
	b, err := c.Next(20)
	if err != nil {
		return err
	}
	b.Free()
	return nil
}

func tooShortAndFreed(p *tarn.Pool) error {
	var c tarn.Chain
	c.Append(p.Get(10))
	b, err := c.Next(20)
	if err != nil {
		c.Free()
		return err
	}
	b.Free()
	return nil
}
