package wire_test

import (
	"encoding/binary"
	"fmt"
	"net"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/wire"
)

// A frame with a length in front is written in one system call, its payload by
// reference where that is large, and handed out on the other side as a reference
// into what was read.
func Example() {
	client, server := net.Pipe()
	pool := tarn.Shared()

	go func() {
		defer client.Close()
		w := wire.NewWriter(client, pool)
		defer w.Release()
		payload := pool.Copy([]byte("hello"))
		binary.BigEndian.PutUint32(w.Space(4), uint32(payload.Len()))
		w.Append(payload) // takes ownership
		if err := w.Flush(); err != nil {
			fmt.Println(err)
		}
	}()

	r := wire.NewReader(server, pool)
	defer r.Release()
	p, err := r.Peek(4)
	if err != nil {
		fmt.Println(err)
		return
	}
	n := int(binary.BigEndian.Uint32(p))
	r.Discard(4)
	frame, err := r.Next(n)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", frame.Bytes())
	frame.Free()
	// Output: hello
}

// A message of declared length is received into a separate buffer, which grows as bytes arrive.
func ExampleLanding() {
	var l wire.Landing
	l.Start(tarn.Shared(), 11, 0)
	for _, piece := range []string{"hello", " ", "world"} {
		l.Put([]byte(piece))
	}
	m := l.Take()
	fmt.Printf("%s\n", m.Bytes())
	m.Free()
	// Output: hello world
}
