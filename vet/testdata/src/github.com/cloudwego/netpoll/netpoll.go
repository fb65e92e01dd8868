// Package netpoll stands in for cloudwego's.
package netpoll

type Reader interface {
	Next(n int) ([]byte, error)
	Peek(n int) ([]byte, error)
	ReadBinary(n int) ([]byte, error)
	Release() error
}

type LinkBuffer struct{}

func (b *LinkBuffer) Next(n int) ([]byte, error)       { return nil, nil }
func (b *LinkBuffer) Peek(n int) ([]byte, error)       { return nil, nil }
func (b *LinkBuffer) ReadBinary(n int) ([]byte, error) { return nil, nil }
func (b *LinkBuffer) Release() error                   { return nil }
func (b *LinkBuffer) Close() error                     { return nil }
