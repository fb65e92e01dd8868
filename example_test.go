package tarn_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/tarn-go/tarn"
)

func Example() {
	pool, err := tarn.NewPool(tarn.PoolConfig{Name: "frames"})
	if err != nil {
		panic(err)
	}
	frame := pool.Copy([]byte("header|body")) // one reference: free it once
	header, body := frame.Split(7)            // two references, nothing copied
	fmt.Printf("%s %s\n", header.Bytes(), body.Bytes())
	header.Free()
	body.Free() // the last one returns the slab to its pool
	fmt.Println(pool.Stats().InUseBuffers, "out")
	// Output:
	// header| body
	// 0 out
}

func ExampleBuffer_Ref() {
	b := tarn.Shared().Copy([]byte("to everybody"))
	done := make(chan int)
	for range 3 {
		mine := b.Ref() // each goroutine frees its own (rule 5)
		go func() {
			defer mine.Free()
			done <- len(mine.Bytes())
		}()
	}
	b.Free()
	fmt.Println(<-done + <-done + <-done)
	// Output: 36
}

func ExampleBuffer_Shrink() {
	pool, _ := tarn.NewPool(tarn.PoolConfig{})
	big := pool.Get(1 << 20)
	key := big.Slice(0, 32) // a small view keeps the whole slab from its pool
	big.Free()
	fmt.Println(key.Pinned())
	key = key.Shrink()
	fmt.Println(key.Pinned())
	key.Free()
	// Output:
	// 1048576
	// 64
}

func ExamplePool_Acquire() {
	pool, _ := tarn.NewPool(tarn.PoolConfig{Budget: 1 << 20})
	held, _ := pool.Acquire(context.Background(), 1<<20)
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err := pool.Acquire(ctx, 1<<10) // waits for room in the budget
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	held.Free()
	// Output: true
}

func ExamplePool_Wrap() {
	mapped := []byte("from mmap, cgo, anywhere")
	b := tarn.Shared().Wrap(mapped, func(b []byte) { fmt.Println("unmap", len(b), "bytes") })
	tail := b.Slice(5, 9)
	b.Free()
	fmt.Printf("%s\n", tail.Bytes())
	tail.Free()
	// Output:
	// mmap
	// unmap 24 bytes
}

func ExampleArena() {
	arena := tarn.NewArena(tarn.Shared(), 64<<10)
	defer arena.Free()
	keys := make([]tarn.Buffer, 3)
	for i := range keys {
		keys[i] = arena.Get(8) // three neighbours in one slab
		copy(keys[i].Bytes(), fmt.Sprintf("key-%d---", i))
	}
	for _, k := range keys {
		fmt.Printf("%s\n", k.Bytes())
		k.Free()
	}
	// Output:
	// key-0---
	// key-1---
	// key-2---
}

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
