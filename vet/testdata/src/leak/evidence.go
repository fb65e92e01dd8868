package leak

import (
	"sync"

	"github.com/tarn-go/tarn"
)

// A landing has its bytes in a field beside the Buffer.
type landing struct {
	pool *tarn.Pool
	buf  tarn.Buffer
	mem  []byte
	n    int
}

func (l *landing) start(n int) {
	l.buf = l.pool.Get(n)
	l.mem = l.buf.Bytes()
}

func (l *landing) grow(n int) {
	b := l.pool.Get(n)
	copy(b.Bytes(), l.mem[:l.n])
	l.buf, l.mem = b, b.Bytes() // want `leak: l.buf is overwritten without having been freed`
}

func (l *landing) growRightly(n int) {
	b := l.pool.Get(n)
	copy(b.Bytes(), l.mem[:l.n])
	l.buf.Free()
	l.buf, l.mem = b, b.Bytes()
}

func (l *landing) Free() { l.buf.Free() }

// A letter has its bytes in a Buffer, and more in a Chain if it is long.
type letter struct {
	data tarn.Buffer
	rest *tarn.Chain
}

func (m *letter) size() int {
	n := m.data.Len()
	if m.rest != nil {
		n += m.rest.Len()
	}
	return n
}

func (m *letter) freeEmpty() {
	if m.data.Len() == 0 {
		m.data.Free()
		m.data = tarn.Buffer{}
	}
}

// free takes ownership of what m holds.
func (m *letter) free() {
	m.data.Free()
	if m.rest != nil {
		m.rest.Free()
	}
}

// half takes ownership of what m holds.
func half(m *letter) { // want `leak: half takes ownership of what m holds, as its comment says, but does not free m.rest`
	m.data.Free()
	if m.rest != nil {
		_ = m.rest.Len()
	}
}

// mailed takes ownership of what m holds.
func mailed(m *letter, open bool) bool { // want `leak: mailed takes ownership of what m holds, as its comment says, but does not free m.data`
	m.freeEmpty()
	if m.size() == 0 || !open {
		return false
	}
	m.free()
	return true
}

// mailRightly takes ownership of what m holds.
func mailRightly(m *letter, open bool) bool {
	m.freeEmpty()
	if m.size() == 0 || !open {
		m.free()
		return false
	}
	m.free()
	return true
}

// try takes ownership of what m holds unless it fails: then that stays the caller's.
func try(m *letter, open bool) error {
	if !open {
		return errShort
	}
	m.free()
	return nil
}

// send takes ownership of what m holds.
func send(m *letter, open bool) error { // want `leak: send takes ownership of what m holds, as its comment says, but does not free m.data`
	return try(m, open)
}

// sendRightly takes ownership of what m holds.
func sendRightly(m *letter, open bool) error {
	err := try(m, open)
	if err != nil {
		m.free()
	}
	return err
}

// movedOn takes ownership of what m holds.
func movedOn(m *letter) letter {
	out := letter{data: m.data, rest: m.rest}
	m.data, m.rest = tarn.Buffer{}, nil
	return out
}

// admit takes ownership of b if there is room; otherwise b stays the caller's.
func admit(c *tarn.Chain, b tarn.Buffer) (ok bool) {
	if c.Len() > 100 {
		return false
	}
	c.Append(b)
	return true
}

func unlooked(p *tarn.Pool, c *tarn.Chain) bool {
	b := p.Get(10) // want `leak: b from p.Get is not freed .* if admit fails, which then leaves it to its caller`
	return admit(c, b)
}

func looked(p *tarn.Pool, c *tarn.Chain) bool {
	b := p.Get(10)
	ok := admit(c, b)
	if !ok {
		b.Free()
	}
	return ok
}

var spare = sync.Pool{New: func() any { return new(tarn.Chain) }}

type hall struct {
	list *tarn.Chain
	all  []tarn.Buffer
}

func (p *hall) drop() {
	if p.list != nil {
		spare.Put(p.list) // want `leak: p.list is put into a sync.Pool without having been freed`
		p.list = nil
	}
}

func (p *hall) dropRightly() {
	if p.list != nil {
		p.list.Free()
		spare.Put(p.list)
		p.list = nil
	}
}

func (p *hall) dropEmpty() {
	if p.list != nil && p.list.Len() == 0 {
		spare.Put(p.list)
		p.list = nil
	}
}

func (p *hall) add(b *tarn.Buffer) {
	p.all = append(p.all, b.Ref()) // want `leak: the field all of hall takes a reference here, and no function of this package frees what it holds`
}

func (p *hall) clear() {
	if p.all == nil {
		return
	}
	clear(p.all)
	p.all = p.all[:0]
}

// empties frees what a struct has that it was given by value, through a pointer.
func empties(m letter, now bool) error {
	if now {
		m.free()
		return errShort
	}
	rest(&m)
	return nil
}

// rest takes ownership of what m holds.
func rest(m *letter) { m.free() }

func emptiesRightly(p *tarn.Pool) {
	m := letter{data: p.Get(10)}
	_ = empties(m, true)
}

func emptiesTwice(p *tarn.Pool) {
	b := p.Get(10)
	m := letter{data: b}
	_ = empties(m, true)
	b.Free() // want `double free|use after free`
}

// forgets takes ownership of what m holds.
func forgets(m *letter) { // want `leak: forgets takes ownership of what m holds, as its comment says, but does not free m.rest when the function ends|leak: forgets .* m.rest on the path that returns`
	m.data.Free()
}

// A registry keeps values by number.
type registry[V any] struct{ all map[int]V }

// take removes what has a number: a reference is to be freed.
func (r *registry[V]) take(n int) (v V, ok bool) {
	v, ok = r.all[n]
	delete(r.all, n)
	return v, ok
}

func takesOut(r *registry[tarn.Buffer], n int) int {
	b, ok := r.take(n) // want `leak: b from r.take is not freed`
	if !ok {
		return 0
	}
	return b.Len()
}

func takesOutRightly(r *registry[tarn.Buffer], n int) {
	b, ok := r.take(n)
	if !ok {
		return
	}
	b.Free()
}

func takesNumbers(r *registry[int], n int) int {
	v, _ := r.take(n)
	return v
}

// encodeLetter returns a letter to be freed.
func encodeLetter(p *tarn.Pool, fail error) (letter, error) {
	if fail != nil {
		return letter{}, fail
	}
	return letter{data: p.Get(10)}, nil
}

func connect() (int, error) { return 0, errShort2() }

func errShort2() error { return nil }

func encodedOnce(p *tarn.Pool, fail error) (int, letter, error) {
	m, err := encodeLetter(p, fail)
	if err != nil {
		return 0, letter{}, err
	}
	n, err := connect()
	return n, m, err // want `leak: m from encodeLetter is returned although the error may be non-nil`
}

func encodedRightly(p *tarn.Pool, fail error) (int, letter, error) {
	m, err := encodeLetter(p, fail)
	if err != nil {
		return 0, letter{}, err
	}
	n, err := connect()
	if err != nil {
		m.free()
		return 0, letter{}, err
	}
	return n, m, nil
}

func compare(got, want []byte, err error) error { return err }

// readOne returns a Buffer to be freed.
func readOne(p *tarn.Pool, fail error) (tarn.Buffer, error) {
	if fail != nil {
		return tarn.Buffer{}, fail
	}
	return p.Get(10), nil
}

func comparedBy(p *tarn.Pool, fail error) error {
	b, err := readOne(p, fail) // want `leak: b from readOne is not freed`
	return compare(b.Bytes(), nil, err)
}

func bad(err error) bool { return err != nil }

func decidedBy(p *tarn.Pool, fail error) int {
	b, err := readOne(p, fail)
	if bad(err) {
		return 0
	}
	defer b.Free()
	return b.Len()
}
