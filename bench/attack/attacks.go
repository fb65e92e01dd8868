package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// attack is what a hostile peer does, step by step. A connection that the server ends is made anew, since
// attackers do so, until the steps are done. Steps count that are sent before the attacker notices the end.
type attack struct {
	name    string
	ops     int // steps
	reading reading
	window  uint32 // what the server may send on a stream; 0: the protocol's 64 KiB - 1
	begin   func(*peer) error
	step    func(*peer, int) error // with the number of the step on this connection
	hold    time.Duration          // how long the server may go on when all steps are done
	// calls is set instead for load that an honest client makes, on the connection of the healthy calls.
	calls func(pb.TestServiceClient, int) error
}

// mostConns bounds the connections that an attack makes.
const mostConns = 500

// mount carries the attack out on the server at addr and returns how many connections it took.
func (a attack) mount(addr string, ops int) (conns int, err error) {
	end := time.Now().Add(attackFor)
	window := a.window
	if window == 0 {
		window = 65535
	}
	for i := 0; i < ops && conns < mostConns && time.Now().Before(end); conns++ {
		p, err := dialPeer(addr, a.reading, window)
		if err != nil {
			return conns, err
		}
		if a.begin != nil {
			err = a.begin(p)
		}
		for n := 0; err == nil && i < ops; n, i = n+1, i+1 {
			if err = a.step(p, n); n%256 == 0 && p.done(a.reading) {
				err = errOver
			}
		}
		if err == nil {
			err = p.out.Flush()
		}
		if err == nil && a.reading == listens {
			err = p.sync()
		}
		if err == nil && i == ops {
			<-time.After(a.hold)
		}
		p.nc.Close()
		if stalled(err) {
			return conns + 1, nil // the server does not read any more: that is an answer, too
		}
	}
	return conns, nil
}

// frames is an attack of frames of one type, on a stream that is open.
func frames(name string, ops int, write func(p *peer, n int) error) attack {
	return attack{name: name, ops: ops, begin: func(p *peer) error {
		_, err := p.open("FullDuplexCall", goesOn)
		return err
	}, step: write}
}

var attacks = []attack{
	{name: "rapid reset", ops: 100_000, step: func(p *peer, n int) error {
		id, err := p.open("UnaryCall", goesOn)
		if err != nil {
			return err
		}
		return p.fr.WriteRSTStream(id, http2.ErrCodeCancel)
	}},
	{name: "rapid reset, complete requests", ops: 100_000, step: func(p *peer, n int) error {
		id, err := p.open("UnaryCall", goesOn)
		if err != nil {
			return err
		}
		if _, err := p.data(id, message(0, 0), ends); err != nil {
			return err
		}
		return p.fr.WriteRSTStream(id, http2.ErrCodeCancel)
	}},
	{name: "rapid reset, slow handlers", ops: 100_000, step: func(p *peer, n int) error {
		id, err := p.open("FullDuplexCall", goesOn)
		if err != nil {
			return err
		}
		return p.fr.WriteRSTStream(id, http2.ErrCodeCancel)
	}},
	{name: "rapid reset of refused streams", ops: 100_000, begin: func(p *peer) error {
		for range 5000 {
			if _, err := p.open("FullDuplexCall", goesOn); err != nil {
				return err
			}
		}
		return nil
	}, step: func(p *peer, n int) error {
		id, err := p.open("FullDuplexCall", goesOn)
		if err != nil {
			return err
		}
		return p.fr.WriteRSTStream(id, http2.ErrCodeCancel)
	}},
	{name: "making the server reset", ops: 100_000, step: func(p *peer, n int) error {
		id, err := p.open("FullDuplexCall", goesOn)
		if err != nil {
			return err
		}
		return p.fr.WriteWindowUpdate(id, 0)
	}},
	{name: "flood of complete requests", ops: 50_000, step: func(p *peer, n int) error {
		id, err := p.open("UnaryCall", goesOn)
		if err != nil {
			return err
		}
		return p.wait(id, message(0, 0), ends)
	}},
	{name: "CONTINUATION flood", ops: 100_000, step: func(p *peer, n int) error {
		if n == 0 {
			return p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.block("UnaryCall")})
		}
		p.buf.Reset()
		return p.fr.WriteContinuation(1, false, []byte("\x00\x01a\x01b"))
	}},
	{name: "empty CONTINUATION flood", ops: 100_000, step: func(p *peer, n int) error {
		if n == 0 {
			return p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.block("UnaryCall")})
		}
		return p.fr.WriteContinuation(1, false, nil)
	}},
	{name: "long header list", ops: 1000, step: func(p *peer, n int) error {
		return p.wideHeaders(60)
	}},
	{name: "header lists on many streams", ops: 4000, step: func(p *peer, n int) error {
		return p.wideHeaders(14)
	}},
	{name: "header block byte by byte", ops: 16_000, reading: deaf, hold: 100 * time.Millisecond, step: func(p *peer, n int) error {
		if n%16384 == 0 { // a HEADERS frame of the largest size that every server takes
			if _, err := p.out.Write([]byte{0, 16384 >> 8, 0, byte(http2.FrameHeaders), byte(http2.FlagHeadersEndHeaders), 0, 0, 0, 1}); err != nil {
				return err
			}
		}
		if err := p.out.WriteByte(0x82); err != nil { // :method: GET
			return err
		}
		return p.out.Flush()
	}},
	{name: "PING flood, nothing is read", ops: 1_000_000, reading: deaf, step: func(p *peer, n int) error {
		return p.fr.WritePing(false, [8]byte{})
	}},
	{name: "SETTINGS flood, nothing is read", ops: 1_000_000, reading: deaf, step: func(p *peer, n int) error {
		return p.settings()
	}},
	{name: "requests, no answer is read", ops: 100_000, reading: deaf, step: func(p *peer, n int) error {
		_, err := p.open("NoSuchCall", ends)
		return err
	}},
	{name: "everything asked for, nothing read", ops: 64, reading: deaf, window: 1 << 30, step: func(p *peer, n int) error {
		id, err := p.open("StreamingOutputCall", goesOn)
		if err != nil {
			return err
		}
		if err := p.fr.WriteData(id, true, message(0, 0)); err != nil {
			return err
		}
		return p.out.Flush()
	}, hold: time.Second},
	{name: "SETTINGS that change all windows", ops: 5000, begin: func(p *peer) error {
		for range 4000 {
			if _, err := p.open("FullDuplexCall", goesOn); err != nil {
				return err
			}
		}
		return p.sync()
	}, step: func(p *peer, n int) error {
		var ss [64]http2.Setting
		for i := range ss {
			ss[i] = http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(65535 + (n+i)%2)}
		}
		return p.settings(ss[:]...)
	}},
	frames("empty DATA", 500_000, func(p *peer, n int) error { return p.fr.WriteData(1, false, nil) }),
	frames("padding", 500_000, func(p *peer, n int) error { return p.fr.WriteDataPadded(1, false, nil, nil) }),
	frames("PRIORITY", 500_000, func(p *peer, n int) error {
		return p.fr.WritePriority(uint32(3+2*(n%100_000)), http2.PriorityParam{Weight: 1})
	}),
	frames("PRIORITY_UPDATE", 500_000, func(p *peer, n int) error {
		id := uint32(3 + 2*(n%100_000))
		return p.fr.WriteRawFrame(0x10, 0, 0, []byte{byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id), 'u', '=', '1'})
	}),
	frames("WINDOW_UPDATE", 500_000, func(p *peer, n int) error { return p.fr.WriteWindowUpdate(1, 1) }),
	frames("unknown frames", 500_000, func(p *peer, n int) error { return p.fr.WriteRawFrame(0xbb, 0, 1, nil) }),
	frames("RST_STREAM of closed streams", 500_000, func(p *peer, n int) error {
		return p.fr.WriteRSTStream(1, http2.ErrCodeCancel)
	}),
	{name: "one-byte DATA frames", ops: 100_000, step: func(p *peer, n int) error {
		if n%50_000 == 0 {
			id, err := p.open("StreamingInputCall", goesOn)
			if err != nil {
				return err
			}
			return p.wait(id, message(0, 1<<20)[:5], goesOn)
		}
		return p.wait(p.next-2, []byte{0}, goesOn)
	}},
	{name: "one byte a stream, unary", ops: 4000, step: oneByte("UnaryCall", []byte{0})},
	{name: "one byte a stream, streaming", ops: 4000, step: oneByte("FullDuplexCall", []byte{0})},
	{name: "4 MiB declared, one byte sent", ops: 4000, step: oneByte("StreamingInputCall", message(0, 4<<20)[:6])},
	{name: "unary requests that never end", ops: 1, step: func(p *peer, n int) error {
		msg := message(0, 4<<20-100)
		sent := map[uint32]int{}
		for range 150 {
			id, err := p.open("UnaryCall", goesOn)
			if err != nil {
				return err
			}
			sent[id] = 0
		}
		for quiet := 0; quiet < 5; quiet++ {
			for id, at := range sent {
				m, err := p.data(id, msg[at:len(msg)-1], goesOn)
				if err != nil {
					return err
				}
				if sent[id] += m; m > 0 {
					quiet = 0
				}
			}
			if err := p.sync(); err != nil {
				return err
			}
		}
		return nil
	}},
	{name: "zip bombs", ops: 100, step: func(p *peer, n int) error {
		id, err := p.open("UnaryCall", goesOn, "grpc-encoding", "gzip")
		if err != nil {
			return err
		}
		return p.wait(id, bomb(), ends)
	}},
	{name: "brown-out: 64 callers, 20 ms", ops: 100, calls: func(c pb.TestServiceClient, ops int) error {
		var wg sync.WaitGroup
		for range 64 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for range ops {
					ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
					c.EmptyCall(ctx, &pb.Empty{})
					cancel()
				}
			}()
		}
		wg.Wait()
		return nil
	}},
}

// wideHeaders opens a stream with a header list of kilobytes KiB that takes little on the wire: one field in the
// dynamic table, referred to again and again.
func (p *peer) wideHeaders(kilobytes int) error {
	value := strings.Repeat("v", 1000-32-1)
	kv := make([]string, 0, 2*kilobytes)
	for range kilobytes {
		kv = append(kv, "x", value)
	}
	_, err := p.open("FullDuplexCall", goesOn, kv...)
	return err
}

// oneByte opens a stream and sends data on it, all in one read of the server's.
func oneByte(method string, data []byte) func(*peer, int) error {
	return func(p *peer, n int) error {
		id, err := p.open(method, goesOn)
		if err != nil {
			return err
		}
		if err := p.wait(id, data, goesOn); err != nil {
			return err
		}
		return p.sync()
	}
}

// bomb is a compressed message of 64 MiB of zeroes.
var bomb = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	b.Write(message(1, 0))
	zw := gzip.NewWriter(&b)
	for range 64 {
		zw.Write(make([]byte, 1<<20))
	}
	zw.Close()
	m := b.Bytes()
	copy(m, message(1, len(m)-5)[:5])
	return m
})
