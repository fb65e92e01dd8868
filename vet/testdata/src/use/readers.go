package use

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net"

	"github.com/tarn-go/tarn"
)

func vectorAfterFree(p *tarn.Pool, c net.Conn) error {
	b := p.Get(10)
	vecs := net.Buffers{[]byte("head"), b.Bytes()}
	b.Free()
	_, err := vecs.WriteTo(c) // want `use after free: these are bytes of b, which was freed at line \d+`
	return err
}

func appendedVectorAfterFree(p *tarn.Pool, c net.Conn) error {
	b := p.Get(10)
	var vecs net.Buffers
	vecs = append(vecs, b.Bytes())
	b.Free()
	_, err := vecs.WriteTo(c) // want `use after free: these are bytes of b, which was freed at line \d+`
	return err
}

func vector(p *tarn.Pool, c net.Conn) error {
	b := p.Get(10)
	vecs := net.Buffers{[]byte("head"), b.Bytes()}
	_, err := vecs.WriteTo(c)
	b.Free()
	if len(vecs) > 0 {
		return io.ErrShortWrite
	}
	return err
}

func vectorReused(p *tarn.Pool, c net.Conn, n int) error {
	var vecs net.Buffers
	for range n {
		b := p.Get(10)
		vecs = append(vecs[:0], b.Bytes())
		_, err := vecs.WriteTo(c)
		b.Free()
		if err != nil {
			return err
		}
	}
	return nil
}

func scannerAfterFree(p *tarn.Pool) (n int) {
	b := p.Get(10)
	sc := bufio.NewScanner(bytes.NewReader(b.Bytes()))
	b.Free()
	for sc.Scan() { // want `use after free: these are bytes of b, which was freed at line \d+`
		n++
	}
	return n
}

func readerAfterFree(p *tarn.Pool) (string, error) {
	b := p.Get(10)
	r := bufio.NewReader(bytes.NewReader(b.Bytes()))
	b.Free()
	return r.ReadString('\n') // want `use after free: these are bytes of b`
}

func copiedAfterFree(p *tarn.Pool, w io.Writer) error {
	b := p.Get(10)
	r := bytes.NewReader(b.Bytes())
	b.Free()
	_, err := io.Copy(w, io.LimitReader(r, 4)) // want `use after free: these are bytes of b`
	return err
}

func decodedAfterFree(p *tarn.Pool, v any) error {
	b := p.Get(10)
	d := json.NewDecoder(bytes.NewBuffer(b.Bytes()))
	b.Free()
	return d.Decode(v) // want `use after free: these are bytes of b`
}

func readerOfOthers(p *tarn.Pool, w io.Writer, other []byte) error {
	b := p.Get(10)
	r := bytes.NewReader(b.Bytes())
	if _, err := r.WriteTo(w); err != nil {
		b.Free()
		return err
	}
	b.Free()
	if r.Len() > 0 {
		return io.ErrShortWrite
	}
	r.Reset(other)
	_, err := io.Copy(w, r)
	return err
}

func scanner(p *tarn.Pool) (n int) {
	b := p.Get(10)
	defer b.Free()
	sc := bufio.NewScanner(bytes.NewReader(b.Bytes()))
	for sc.Scan() {
		n++
	}
	return n
}
