// Package pool stands in for libp2p's.
package pool

type BufferPool struct{}

func (p *BufferPool) Get(n int) []byte { return nil }
func (p *BufferPool) Put(buf []byte)   {}

func Get(n int) []byte { return nil }
func Put(buf []byte)   {}
