package leak

import (
	"errors"

	"github.com/tarn-go/tarn"
)

var errEnd = errors.New("end")

// reply has several references, and the reason why it has none.
type reply struct {
	head, body tarn.Buffer
	err        error
}

func (m *reply) Free() {
	m.head.Free()
	m.body.Free()
}

type feed interface {
	// next returns the next message, to be freed.
	next() reply
	// peek borrows nothing.
	peek() reply
}

func missed(s feed) int {
	m := s.next() // want `leak: m from s.next is not freed on the path that returns at line 35`
	if m.err != nil {
		return 0
	}
	if m.head.Len() == 0 {
		return 1
	}
	defer m.Free()
	return len(m.head.Bytes()) + len(m.body.Bytes())
}

func last(s feed) error {
	switch m := s.next(); m.err { // want `leak: m from s.next is not freed on the path that returns`
	case errEnd:
		return nil
	case nil:
		return errEnd
	default:
		return m.err
	}
}

func ended(s feed) error {
	m := s.next()
	if errors.Is(m.err, errEnd) {
		return nil
	}
	if m.err == nil {
		m.Free()
	}
	return m.err
}

// renamed changes the error before it looks at it: what it says of the message is not followed.
func renamed(s feed, err error) error {
	m := s.next()
	if m.err == errEnd {
		m.err = err
	}
	if m.err != nil {
		return m.err
	}
	m.Free()
	return nil
}

func forwards(s feed) reply {
	m := s.next()
	if m.err != nil {
		return reply{err: errEnd}
	}
	return m
}

func looks(s feed) int {
	m := s.peek()
	return m.head.Len()
}

func drains(s feed) (n int) {
	for {
		m := s.next()
		if m.err != nil {
			return n
		}
		n += m.head.Len()
		m.Free()
	}
}

// read frees the message through a variable of its own.
func read(m *reply, log func(int)) {
	b := reply{head: m.head, body: m.body}
	n := b.head.Len()
	log(n)
	b.Free()
	log(n)
}

type nested struct {
	msg reply
	n   int
}

// copies frees a copy of the field.
func copies(r *nested, log func(int)) {
	m := r.msg
	log(m.head.Len())
	m.Free()
	log(0)
}

type reader interface {
	// take returns what was read, to be freed.
	take() nested
}

func both(s feed, r reader, log func(int)) {
	m := s.next()
	if m.err == nil {
		read(&m, log)
	}
	n := r.take()
	copies(&n, log)
}

type parser interface {
	// cut takes out the message at the front, to be freed; ok is false while it is incomplete.
	cut() (r reply, ok bool, err error)
}

func parse(p parser, each func(int)) error {
	for {
		r, ok, err := p.cut()
		switch {
		case err != nil:
			return err
		case !ok:
			return nil
		}
		each(r.head.Len())
		r.Free()
	}
}

func parseOne(p parser) (int, error) {
	r, ok, err := p.cut() // want `leak: r from p.cut is not freed on the path that returns`
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, nil
	}
	return r.head.Len(), nil
}
