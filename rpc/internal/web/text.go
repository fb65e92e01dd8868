package web

import (
	"bytes"
	"encoding/base64"
	"io"

	"github.com/tarn-go/tarn/rpc/internal/message"
)

// TextWriter encodes each Write as separate base64 with padding, so that a browser gets the end of each
// message.
type TextWriter struct{ W io.Writer }

// Write encodes p.
func (t TextWriter) Write(p []byte) (int, error) {
	if _, err := t.W.Write(base64.StdEncoding.AppendEncode(nil, p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// TextReader decodes base64 that may consist of several padded parts, one after another.
type TextReader struct {
	R    io.Reader
	raw  [4096]byte // undecoded text is raw[:have]
	have int
	out  [3072]byte // decoded and not read: out[from:to]
	from int
	to   int
	err  error
}

// Read returns decoded bytes. Text that is not base64, or ends in a group, is message.ErrTruncated.
func (t *TextReader) Read(p []byte) (int, error) {
	for t.from == t.to {
		if t.err != nil {
			return 0, t.err
		}
		t.fill()
	}
	n := copy(p, t.out[t.from:t.to])
	t.from += n
	return n, nil
}

// fill reads text and decodes all complete groups of four characters.
func (t *TextReader) fill() {
	n, err := t.R.Read(t.raw[t.have:])
	for _, b := range t.raw[t.have : t.have+n] {
		if b != '\r' && b != '\n' {
			t.raw[t.have] = b
			t.have++
		}
	}
	t.from, t.to = 0, 0
	at := 0
	for at+4 <= t.have {
		// Up to the next padding, groups are decoded together.
		upTo := t.have &^ 3
		if i := bytes.IndexByte(t.raw[at:t.have], '='); i >= 0 {
			upTo = min(upTo, at+i&^3+4)
		}
		k, derr := base64.StdEncoding.Decode(t.out[t.to:], t.raw[at:upTo])
		t.to += k
		at = upTo
		if derr != nil {
			t.err = message.ErrTruncated
			return
		}
	}
	t.have = copy(t.raw[:], t.raw[at:t.have])
	if err != nil {
		t.err = err
		if err == io.EOF && t.have > 0 {
			t.err = message.ErrTruncated
		}
	}
}
