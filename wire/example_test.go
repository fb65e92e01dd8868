package wire_test

import (
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
		wire.PutFrameHeader(w.Space(wire.FrameHeaderLen), payload.Len())
		w.Append(payload) // takes ownership
		if err := w.Flush(); err != nil {
			fmt.Println(err)
		}
	}()

	r := wire.NewReader(server, pool)
	defer r.Release()
	n, err := r.FrameLen(1 << 20)
	if err != nil {
		fmt.Println(err)
		return
	}
	frame, err := r.Next(n)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", frame.Bytes())
	frame.Free()
	// Output: hello
}

// A message of declared length lands in a buffer of its own, which grows as bytes
// arrive.
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
