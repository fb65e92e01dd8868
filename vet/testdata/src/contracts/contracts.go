// Package contracts shows what doc comments and facts say.
package contracts

import (
	"dep"

	"github.com/tarn-go/tarn"
)

func Silent(b tarn.Buffer) int { // want `comment: Silent takes a tarn.Buffer, and its comment does not say whether it "takes ownership of b" or "borrows b"`
	return b.Len()
}

// Take takes ownership of b.
func Take(b tarn.Buffer) { b.Free() }

// Look borrows b.
func Look(b tarn.Buffer) int { return len(b.Bytes()) }

// Pair takes ownership of a and b.
func Pair(a, b tarn.Buffer) {
	a.Free()
	b.Free()
}

// Lies borrows b.
func Lies(b tarn.Buffer) {
	b.Free() // want `contract: the comment says that Lies borrows b, but it is freed here`
}

// LiesByProxy borrows b.
func LiesByProxy(b tarn.Buffer) {
	Take(b) // want `contract: the comment says that LiesByProxy borrows b, but it is given to Take here`
}

// Try takes ownership of b if it succeeds; otherwise it reports false, and b stays the caller's.
func Try(b tarn.Buffer) bool {
	if b.Len() > 10 {
		return false
	}
	b.Free()
	return true
}

func try(p *tarn.Pool) {
	b := p.Get(5)
	if !Try(b) {
		b.Free()
	}
}

func tryWrong(p *tarn.Pool) {
	b := p.Get(5)
	if Try(b) {
		b.Free() // want `use after free: Try took ownership of b`
	} else {
		b.Free()
	}
}

func acrossPackages(p *tarn.Pool) error {
	b, err := dep.Make(p, 10) // want `leak: b from dep.Make is not freed`
	if err != nil {
		return err
	}
	dep.Look(b)
	return nil
}

func givenAcross(p *tarn.Pool) error {
	b := p.Get(10)
	err := dep.Send(b)
	b.Free() // want `use after free: dep.Send took ownership of b`
	return err
}

func mustHelper(p *tarn.Pool) {
	b, err := dep.Make(p, 10)
	dep.Must(err)
	b.Free()
}

type handler struct{ got []tarn.Buffer }

func (h *handler) OnData(b tarn.Buffer) { // want `leak: OnData takes ownership of b, as its comment says, but does not free it`
	if b.Len() > 100 {
		return
	}
	h.got = append(h.got, b)
}

func (h *handler) close() {
	for _, b := range h.got {
		b.Free()
	}
}

var _ dep.Handler = (*handler)(nil)
