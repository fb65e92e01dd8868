// Command frames is a protocol of one's own on package wire: a client sends messages with a length in front, and the server
// sends each back. Neither copies a message: it is handed on as a reference to the memory that received it.
package main

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/wire"
)

// longest is the longest message in bytes that a peer may announce. No memory is taken for what is announced and not sent.
const longest = 1 << 20

func main() {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go serve(lis, tarn.Shared())
	for _, message := range []string{"first", "second", "third"} {
		answer, err := call(lis.Addr().String(), message)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(answer)
	}
}

// serve echoes on each connection of lis until lis is closed.
func serve(lis net.Listener, pool *tarn.Pool) {
	for {
		conn, err := lis.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			if err := echo(conn, pool); err != nil {
				log.Print(err)
			}
		}()
	}
}

// echo sends back what conn receives, until its peer closes it.
func echo(conn net.Conn, pool *tarn.Pool) error {
	r := wire.NewReader(conn, pool)
	defer r.Release()
	w := wire.NewWriter(conn, pool)
	defer w.Release()
	for {
		n, err := r.ReadPrefix32(longest) // a longer one is wire.ErrPrefix
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		message, err := r.Next(n) // one reference, which is this function's
		if err != nil {
			return err
		}
		w.WriteUint32(uint32(n))
		w.Append(message) // takes ownership: freed when it is sent, and on every error
		if r.Buffered() > 0 {
			continue // answers to requests that came together leave together
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
}

// call sends one message on a connection of its own and returns the answer.
func call(addr, message string) (string, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	w := wire.NewWriter(conn, tarn.Shared())
	defer w.Release()
	w.WriteUint32(uint32(len(message)))
	w.WriteString(message)
	if err := w.Flush(); err != nil {
		return "", err
	}
	r := wire.NewReader(conn, tarn.Shared())
	defer r.Release()
	n, err := r.ReadPrefix32(longest)
	if err != nil {
		return "", err
	}
	answer, err := r.Next(n)
	if err != nil {
		return "", err
	}
	defer answer.Free()
	return string(answer.Bytes()), nil
}
