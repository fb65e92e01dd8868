package wire_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"time"

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

// loopback returns the two ends of a TCP connection.
func loopback() (client, server net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		log.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		log.Fatal(err)
	}
	return client, server
}

// A protocol in which any goroutine sends, and none waits for a slow peer: what the socket takes is sent at once, and the
// rest is left to a goroutine that may wait.
func ExampleWriter_TrySend() {
	client, server := loopback()
	go func() {
		defer client.Close()
		w := wire.NewWriter(client, nil)
		defer w.Release()
		b := w.NewBatch() // gathered under a lock of the protocol's own
		b.Write([]byte("hello"))
		sent, err := w.TrySend(b)
		if err == nil && sent == wire.Unsent {
			err = w.Send(b) // on a goroutine for it
		}
		if err != nil {
			fmt.Println(err)
		}
	}()
	text, err := io.ReadAll(server)
	fmt.Printf("%s %v\n", text, err)
	server.Close()
	// Output: hello <nil>
}

// A connection on which a keepalive probe answers for a silent peer: the deadline of a read is not its end.
func ExampleReader_OnDeadline() {
	client, server := net.Pipe()
	r := wire.NewReader(server, nil)
	defer r.Release()
	server.SetReadDeadline(time.Now().Add(time.Millisecond))
	r.OnDeadline(func() error { // the probe is sent here; an error ends the read
		server.SetReadDeadline(time.Time{})
		go client.Write([]byte("alive"))
		return nil
	})
	p, err := r.Peek(5)
	fmt.Printf("%s %v\n", p, err)

	giveUp := errors.New("the peer does not answer")
	server.SetReadDeadline(time.Now().Add(time.Millisecond))
	r.OnDeadline(func() error { return giveUp })
	_, err = r.Peek(6)
	fmt.Println(err, errors.Is(err, os.ErrDeadlineExceeded))
	// Output:
	// alive <nil>
	// the peer does not answer false
}

// A reader of long messages that notes when its peer was heard last, for a keepalive of its own, while one call reads.
func ExampleReader_OnRead() {
	client, server := net.Pipe()
	go func() {
		for _, piece := range []string{"one ", "two ", "three"} {
			client.Write([]byte(piece))
		}
	}()
	r := wire.NewReader(server, nil)
	defer r.Release()
	heard := 0
	r.OnRead(func() { heard++ })
	message := make([]byte, len("one two three"))
	_, err := r.ReadFull(message)
	fmt.Printf("%s %v, heard %t\n", message, err, heard > 0)
	// Output: one two three <nil>, heard true
}

// A message is passed on in the pieces that have arrived, by reference, and not held until it is whole.
func ExampleReader_NextBuffered() {
	client, server := net.Pipe()
	go func() {
		client.Write([]byte("\x0bhello "))
		client.Write([]byte("world"))
	}()
	r := wire.NewReader(server, nil)
	defer r.Release()
	length, err := r.Peek(1)
	if err != nil {
		log.Fatal(err)
	}
	left := int(length[0])
	r.Discard(1)
	for left > 0 {
		b := r.NextBuffered(left)
		if b.Len() == 0 {
			if _, err := r.Peek(1); err != nil { // waits
				log.Fatal(err)
			}
			continue
		}
		fmt.Printf("%s", b.Bytes())
		left -= b.Len()
		b.Free()
	}
	fmt.Println()
	// Output: hello world
}

// A caller that waits a little after each read, to have more with the next, is not woken by what arrives meanwhile.
func ExampleReader_SetBusyLowWater() {
	client, server := loopback()
	go func() {
		defer client.Close()
		for range 100 {
			client.Write(make([]byte, 100))
		}
	}()
	r := wire.NewReader(server, nil)
	defer r.Release()
	r.SetBusyLowWater(16 << 10)
	n := 0
	for {
		_, err := r.Peek(1) // waits for any byte
		if err == io.EOF {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		n += r.Buffered()
		r.Discard(r.Buffered())
		<-time.After(50 * time.Microsecond)
	}
	fmt.Println(n)
	server.Close()
	// Output: 10000
}
