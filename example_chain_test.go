package tarn_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/tarn-go/tarn"
)

// A protocol with a length before each message takes messages out of what was received, however it
// came in pieces.
func ExampleChain() {
	pool := tarn.Shared()
	var received tarn.Chain
	defer received.Free()
	for _, piece := range []string{"\x00\x05he", "llo\x00", "\x05world", "\x00\x03in"} {
		received.Append(pool.Copy([]byte(piece)))
		for {
			var header [2]byte
			if received.CopyTo(header[:]) < len(header) {
				break
			}
			n := int(binary.BigEndian.Uint16(header[:]))
			if received.Len() < len(header)+n {
				break
			}
			received.Discard(len(header)) // not short, as Len says
			message, err := received.Next(n)
			if err != nil {
				break
			}
			fmt.Printf("%s\n", message.Bytes())
			message.Free()
		}
	}
	_, err := received.Next(10)
	fmt.Println(errors.Is(err, tarn.ErrShort), received.Len(), "bytes wait for more")
	// Output:
	// hello
	// world
	// true 4 bytes wait for more
}

// Peek looks at bytes where they lie; the views are borrowed.
func ExampleChain_Peek() {
	pool := tarn.Shared()
	var c tarn.Chain
	defer c.Free()
	c.Append(pool.Copy([]byte("zero ")))
	c.Append(pool.Copy([]byte("copies")))
	var views [][]byte // to be used again for the next Peek
	views, err := c.Peek(8, views[:0])
	if err != nil {
		fmt.Println(err)
	}
	for _, v := range views {
		fmt.Printf("%q\n", v)
	}
	// Output:
	// "zero "
	// "cop"
}

// Cut moves bytes to a chain of their own; nothing is copied.
func ExampleChain_Cut() {
	var c tarn.Chain
	defer c.Free()
	c.Append(tarn.Shared().Copy([]byte("head|body")))
	head, err := c.Cut(c.IndexByte('|'))
	if err != nil {
		fmt.Println(err)
	}
	head.WriteTo(os.Stdout)
	fmt.Println(",", c.Len(), "bytes left")
	// Output:
	// head, 5 bytes left
}

// Small writes share a buffer; large pieces go in by reference.
func ExampleWriter() {
	pool := tarn.Shared()
	w := tarn.NewWriter(pool)
	fmt.Fprintf(w, "%d bytes follow: ", 7)
	w.Append(pool.Copy([]byte("payload")))
	w.WriteByte('\n')
	c := w.Take() // the caller's to free; writing it frees it
	c.WriteTo(os.Stdout)
	// Output:
	// 7 bytes follow: payload
}
