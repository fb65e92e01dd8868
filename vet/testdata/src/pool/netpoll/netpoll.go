// Package netpoll has mistakes with netpoll's LinkBuffer.
package netpoll

import (
	"os"

	"github.com/cloudwego/netpoll"
)

func afterRelease(r netpoll.Reader) error {
	p, err := r.Next(4)
	if err != nil {
		return err
	}
	r.Release()
	os.Stdout.Write(p) // want `use after release: bytes of r are passed to File.Write, but Reader.Release at`
	return nil
}

func returned(b *netpoll.LinkBuffer) ([]byte, error) {
	defer b.Release()
	p, err := b.Peek(4)
	return p, err // want `escape: bytes of b are returned, but LinkBuffer.Release at`
}

func loop(r netpoll.Reader) (last []byte) {
	for range 3 {
		last, _ = r.Next(2)
		r.Release()
	}
	return last // want `escape: bytes of r are returned`
}

func right(r netpoll.Reader) ([]byte, error) {
	defer r.Release()
	return r.ReadBinary(4)
}

func again(r netpoll.Reader) {
	p, _ := r.Next(4)
	os.Stdout.Write(p)
	r.Release()
	p, _ = r.Next(4)
	os.Stdout.Write(p)
}
