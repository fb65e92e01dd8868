package quiet

import "github.com/tarn-go/tarn"

// A Free may have a receiver that is no pointer.
type byValue struct {
	head, body tarn.Buffer
	rest       [2]tarn.Buffer
	length     int
}

func (v byValue) Free() {
	v.head.Free()
	v.body.Free()
	for _, b := range v.rest {
		b.Free()
	}
}

type byOtherMethod struct{ inner byValue }

func (v byOtherMethod) Free() { v.inner.Free() }

type byHelper struct{ b tarn.Buffer }

func (v byHelper) Free() { release(v) }

func release(v byHelper) { v.b.Free() }
