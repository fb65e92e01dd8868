package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// attack is the behaviour of a hostile peer in steps. When the server ends the connection, the attacker makes a
// new one, until the steps are done. Steps that are sent before the attacker notices the end are counted.
type attack struct {
	name    string
	ops     int // steps
	reading reading
	window  uint32 // what the server may send on a stream; 0: the protocol's 64 KiB - 1
	begin   func(*peer) error
	lasts   time.Duration          // how long, in place of ops: as fast as the server allows, or at rate
	rate    int                    // steps a second; 0: as fast as the server allows
	peers   int                    // how many attack at once; 0: one
	step    func(*peer, int) error // with the number of the step on this connection
	hold    time.Duration          // how long the server may go on when all steps are done
	grpc    bool                   // only servers of gRPC can be attacked so
	// calls is set instead for load that a correct client makes, on the connection of the healthy calls.
	calls func(caller, int) error
}

// mostConns bounds the connections that an attack of so many steps makes.
const mostConns = 500

// mount runs a fraction of the attack on the server: share of its ops, or of its duration. It returns
// how many connections and steps it took.
func (a attack) mount(at target, share float64) (conns, steps int, err error) {
	if a.peers <= 1 {
		return a.mountAlone(at, share)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	alone := a
	alone.peers = 0
	for range a.peers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			n, m, e := alone.mountAlone(at, share)
			mu.Lock()
			defer mu.Unlock()
			conns, steps = conns+n, steps+m
			err = errors.Join(err, e)
		}()
	}
	wg.Wait()
	return conns, steps, err
}

func (a attack) mountAlone(at target, share float64) (conns, steps int, err error) {
	begun := time.Now()
	end, ops, most := begun.Add(attackFor), max(int(share*float64(a.ops)), min(a.ops, 10)), mostConns
	if a.lasts > 0 {
		end, ops, most = begun.Add(time.Duration(share*float64(a.lasts))), math.MaxInt, math.MaxInt
	}
	window := a.window
	if window == 0 {
		window = 65535
	}
	i := 0
	for i < ops && conns < most && time.Now().Before(end) {
		p, err := dialPeer(at, a.reading, window, end)
		if err != nil {
			if stalled(err) {
				break
			}
			return conns, i, err
		}
		conns++
		if a.begin != nil {
			err = a.begin(p)
		}
		for n := 0; err == nil && i < ops; n, i = n+1, i+1 {
			if err = a.step(p, n); n%256 == 0 && p.done(a.reading) {
				err = errOver
			}
			if a.rate > 0 && n%(a.rate/100) == 0 {
				err = errors.Join(err, p.out.Flush())
				<-time.After(time.Until(begun.Add(time.Duration(i) * time.Second / time.Duration(a.rate))))
			}
			if a.lasts > 0 && (a.rate > 0 || n%256 == 0) && time.Now().After(end) {
				break
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
			break // the server has stopped reading, which is a valid defence
		}
	}
	return conns, i, nil
}

// frames is an attack by frames of one type on an open stream.
func frames(name string, ops int, write func(p *peer, n int) error) attack {
	return attack{name: name, ops: ops, begin: openOne, step: write}
}

// long is the duration of attacks without a number of steps.
const long = 2 * time.Second

var attacks = []attack{
	{name: "none: an idle connection", lasts: long, rate: 100, begin: openOne, step: func(*peer, int) error { return nil }},
	{name: "rapid reset", lasts: long, step: resetAtOnce("UnaryCall")},
	{name: "rapid reset, complete requests", lasts: long, step: func(p *peer, n int) error {
		id, err := p.open("UnaryCall", goesOn)
		if err != nil {
			return err
		}
		if _, err := p.data(id, message(0, 0), ends); err != nil {
			return err
		}
		return p.fr.WriteRSTStream(id, http2.ErrCodeCancel)
	}},
	{name: "rapid reset, slow handlers", lasts: long, step: resetAtOnce("FullDuplexCall")},
	{name: "rapid reset of refused streams", lasts: long, begin: func(p *peer) error {
		for range min(5000, p.permitted()) {
			if _, err := p.open("FullDuplexCall", goesOn); err != nil {
				return err
			}
		}
		return nil
	}, step: resetAtOnce("FullDuplexCall")},
	{name: "rapid reset, 8 connections", lasts: long, peers: 8, step: resetAtOnce("UnaryCall")},
	{name: "rapid reset, 500 a second", lasts: long, rate: 500, step: resetAtOnce("FullDuplexCall")},
	{name: "rapid reset, after a call each", lasts: long, step: afterCall(resetAtOnce("FullDuplexCall"))},
	{name: "making the server reset", lasts: long, step: breakAtOnce},
	{name: "making the server reset, 500 a second", lasts: long, rate: 500, step: breakAtOnce},
	{name: "making the server reset, after a call each", lasts: long, step: afterCall(breakAtOnce)},
	{name: "flood of complete requests", ops: 50_000, step: func(p *peer, n int) error {
		return p.call()
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
	{name: "header bomb: empty crumbs", ops: 240, peers: 10, hold: time.Second, step: crumbs("", 490)},
	{name: "header bomb: crumbs of 90 bytes, too many", ops: 240, peers: 2, hold: time.Second, step: crumbs(strings.Repeat("a=b", 30), 2000)},
	{name: "header bomb: lists of 64 kB", ops: 240, peers: 40, hold: time.Second, step: crumbs(strings.Repeat("v", 4000), 16)},
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
		for range min(4000, p.permitted()) {
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
		id := uint32(1_000_001 + 2*(n%50)) // for more streams than may be open it would be PROTOCOL_ERROR
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
	{name: "zip bombs", grpc: true, ops: 100, step: func(p *peer, n int) error {
		id, err := p.open("UnaryCall", goesOn, "grpc-encoding", "gzip")
		if err != nil {
			return err
		}
		return p.wait(id, bomb(), ends)
	}, hold: time.Second},
	{name: "brown-out: 64 callers, 20 ms", ops: 100, calls: func(c caller, ops int) error {
		var wg sync.WaitGroup
		for range 64 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for range ops {
					ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
					c.wait(ctx)
					cancel()
				}
			}()
		}
		wg.Wait()
		return nil
	}},
}

// resetAtOnce opens a stream and resets it.
func resetAtOnce(method string) func(*peer, int) error {
	return func(p *peer, n int) error {
		id, err := p.open(method, goesOn)
		if err != nil {
			return err
		}
		return p.fr.WriteRSTStream(id, http2.ErrCodeCancel)
	}
}

// breakAtOnce opens a stream and has the server reset it.
func breakAtOnce(p *peer, n int) error {
	id, err := p.open("FullDuplexCall", goesOn)
	if err != nil {
		return err
	}
	return p.fr.WriteWindowUpdate(id, 0)
}

// call makes a complete request.
func (p *peer) call() error {
	id, err := p.open("UnaryCall", goesOn)
	if err != nil {
		return err
	}
	return p.wait(id, message(0, 0), ends)
}

// afterCall makes a complete call before each step.
func afterCall(step func(*peer, int) error) func(*peer, int) error {
	return func(p *peer, n int) error {
		if err := p.call(); err != nil {
			return err
		}
		return step(p, n)
	}
}

// openOne opens a stream.
func openOne(p *peer) error {
	_, err := p.open("FullDuplexCall", goesOn)
	return err
}

// wideHeaders opens a stream with a header list of kilobytes KiB that is encoded in far fewer bytes: one field in the
// dynamic table, referenced repeatedly.
func (p *peer) wideHeaders(kilobytes int) error {
	value := strings.Repeat("v", 1000-32-1)
	kv := make([]string, 0, 2*kilobytes)
	for range kilobytes {
		kv = append(kv, "x", value)
	}
	_, err := p.open("FullDuplexCall", goesOn, kv...)
	return err
}

// crumbs is a step that opens a stream with n fields, each of one byte once the dynamic table has the first. The handler waits.
func crumbs(value string, n int) func(*peer, int) error {
	return func(p *peer, _ int) error {
		kv := make([]string, 0, 2*n)
		for range n {
			kv = append(kv, "cookie", value)
		}
		_, err := p.open("FullDuplexCall", goesOn, kv...)
		return err
	}
}

// oneByte opens a stream and sends data on it, so that the server receives both with one read.
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
