package wire_test

import (
	"fmt"
	"io"
	"net"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/wire"
)

// Messages with a varint of their length in front, as Protocol Buffers are delimited in a stream, and before them a number that
// says how many there are.
func ExampleReader_ReadPrefixUvarint() {
	client, server := net.Pipe()
	pool := tarn.Shared()
	go func() {
		defer client.Close()
		w := wire.NewWriter(client, pool)
		defer w.Release()
		texts := []string{"hello", "world"}
		w.WriteUvarint(uint64(len(texts)))
		for _, text := range texts {
			w.WriteUvarint(uint64(len(text)))
			w.Borrow([]byte(text)) // by reference if it is large: it must not change before Flush returns
		}
		if err := w.Flush(); err != nil {
			fmt.Println(err)
		}
	}()

	r := wire.NewReader(server, pool)
	defer r.Release()
	r.SetTrust(1 << 20) // a message of 1 MiB is what this side has asked for: memory for it is taken at once
	count, err := r.ReadUvarint()
	if err != nil {
		fmt.Println(err)
		return
	}
	for range count {
		n, err := r.ReadPrefixUvarint(1 << 20)
		if err != nil {
			fmt.Println(err)
			return
		}
		message, err := r.Next(n)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s\n", message.Bytes())
		message.Free()
	}
	// Output:
	// hello
	// world
}

// A magic number of four bytes opens a connection; one that ends before it is no error.
func ExampleReader_ReadUint32() {
	client, server := net.Pipe()
	go func() {
		defer client.Close()
		client.Write([]byte("TARN"))
	}()
	r := wire.NewReader(server, nil)
	defer r.Release()
	for {
		magic, err := r.ReadUint32()
		if err == io.EOF {
			return
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%#x\n", magic)
	}
	// Output: 0x5441524e
}

// A message is read from the connection right into its own memory, instead of being copied there.
func ExampleLanding_Filled() {
	client, server := net.Pipe()
	go func() {
		defer client.Close()
		client.Write([]byte("hello world"))
	}()
	var l wire.Landing
	defer l.Free()
	l.Start(tarn.Shared(), 11, 0)
	for l.Left() > 0 {
		n, err := server.Read(l.Space())
		if err != nil {
			fmt.Println(err)
			return
		}
		l.Filled(n)
	}
	m := l.Take()
	fmt.Printf("%s\n", m.Bytes())
	m.Free()
	// Output: hello world
}
