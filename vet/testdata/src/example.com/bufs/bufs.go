// Package bufs is a pool of which the analyser has no contract of its own.
package bufs

type Buf struct{}

func (b *Buf) Bytes() []byte { return nil }
func (b *Buf) Len() int      { return 0 }
func (b *Buf) Hold()         {}
func (b *Buf) Release()      {}

func Get(n int) *Buf { return nil }
