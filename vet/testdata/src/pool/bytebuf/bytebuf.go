// Package bytebuf has mistakes with bytebufferpool.
package bytebuf

import (
	"os"

	"github.com/valyala/bytebufferpool"
)

func returnsField() []byte {
	b := bytebufferpool.Get()
	defer bytebufferpool.Put(b)
	b.B = append(b.B, "x"...)
	return b.B // want `escape: bytes of b are returned`
}

func returnsBytes() []byte {
	b := bytebufferpool.Get()
	b.WriteString("x")
	defer bytebufferpool.Put(b)
	return b.Bytes() // want `escape: bytes of b are returned`
}

func afterPut(p *bytebufferpool.Pool) {
	b := p.Get()
	data := b.B
	p.Put(b)
	os.Stdout.Write(data) // want `use after release: these are bytes of b`
}

func resetAfterPut() {
	b := bytebufferpool.Get()
	bytebufferpool.Put(b)
	b.Reset() // want `use after release: b was given back by Put`
}

func twice(fail bool) {
	b := bytebufferpool.Get()
	defer bytebufferpool.Put(b) // want `double release: b is given back by Put`
	if fail {
		bytebufferpool.Put(b)
	}
}

func right() string {
	b := bytebufferpool.Get()
	defer bytebufferpool.Put(b)
	b.WriteString("x")
	return b.String()
}

func rightCopy() []byte {
	b := bytebufferpool.Get()
	defer bytebufferpool.Put(b)
	return append([]byte{}, b.B...)
}
