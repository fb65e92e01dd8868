package rpc

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/tap"
)

// InTapHandle calls h when the header of a call has arrived, before a handler is started and before a unary
// request is read. An error refuses the call: with its own status, or PERMISSION_DENIED. h runs on the
// goroutine that reads the connection and must not block; its context ends at the call's deadline. A panic of h
// refuses the call with INTERNAL and is reported as that of a handler (grpc-go's ends the process). As in grpc-go, h
// must not call Stop, which waits for that goroutine, nor runtime.Goexit, which ends it: the calls of the connection
// end at their deadlines then, and Stop does not return. It panics when set twice.
func InTapHandle(h tap.ServerInHandle) ServerOption {
	return serverOption(func(o *serverOptions) {
		if o.tap != nil {
			panic("rpc: caller set InTapHandle twice")
		}
		o.tap = h
	})
}

// HeaderTableSize is accepted for compatibility with grpc-go and has no effect: the table of a peer's header
// fields has HTTP/2's initial 4096 bytes.
func HeaderTableSize(uint32) ServerOption { return serverOption(func(*serverOptions) {}) }

// ReadBufferSize is accepted for compatibility with grpc-go and has no effect: a connection reads into
// buffers of the pool, and holds none while it waits.
func ReadBufferSize(int) ServerOption { return serverOption(func(*serverOptions) {}) }

// WriteBufferSize is accepted for compatibility with grpc-go and has no effect: a connection writes messages
// from their own memory.
func WriteBufferSize(int) ServerOption { return serverOption(func(*serverOptions) {}) }

// SharedWriteBuffer is accepted for compatibility with grpc-go and has no effect: there is no write buffer to
// share.
func SharedWriteBuffer(val bool) ServerOption { return serverOption(func(*serverOptions) {}) }

// BufferPool is accepted for compatibility with grpc-go's package experimental and has no effect: memory comes from the pool of [Pool].
func BufferPool(mem.BufferPool) ServerOption { return serverOption(func(*serverOptions) {}) }
