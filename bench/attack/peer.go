package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// peer is an attacker's connection, on which single HTTP/2 frames are sent.
type peer struct {
	nc     net.Conn
	scheme string
	out    *bufio.Writer
	fr     *http2.Framer
	enc    *hpack.Encoder
	buf    bytes.Buffer
	next   uint32

	mu      sync.Mutex
	cond    sync.Cond
	over    bool           // the server has sent GOAWAY or ended the connection
	acked   int            // SETTINGS that the server has acknowledged
	sent    int            // SETTINGS sent
	conn    int            // the connection's window
	streams map[uint32]int // the streams' windows
	initial int            // what a stream starts with
	permits int            // how many streams the server permits; set when it has greeted
}

// target is a server and the kind of connections that it accepts.
type target struct {
	addr string
	kind kind
}

// errOver means that the server has ended the connection.
var errOver = errors.New("attack: the server has ended the connection")

// dialPeer connects and sends preface and SETTINGS; end is when the attack ends. The windows bound what the server may send on a stream and on the connection.
func dialPeer(at target, r reading, window uint32, end time.Time) (*peer, error) {
	nc, err := net.Dial("tcp", at.addr)
	if err != nil {
		return nil, err
	}
	scheme := "http"
	if at.kind == overTLS {
		scheme = "https"
		nc = tls.Client(nc, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	}
	nc.SetDeadline(end)
	p := &peer{nc: nc, scheme: scheme, out: bufio.NewWriterSize(nc, 32<<10), next: 1, conn: 65535, initial: 65535, permits: math.MaxInt32, streams: map[uint32]int{}}
	p.cond.L = &p.mu
	p.fr = http2.NewFramer(p.out, bufio.NewReader(nc))
	p.fr.AllowIllegalWrites = true
	p.enc = hpack.NewEncoder(&p.buf)
	io.WriteString(p.out, http2.ClientPreface)
	p.settings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window})
	if window > 65535 {
		p.fr.WriteWindowUpdate(0, 1<<30)
	}
	if err := p.out.Flush(); err != nil {
		nc.Close()
		return nil, err
	}
	greeted := make(chan struct{})
	go p.read(r, greeted)
	<-greeted
	p.fr.WriteSettingsAck()
	return p, nil
}

// reading is whether an attacker reads the server's frames.
type reading int

const (
	listens reading = iota
	deaf            // nothing after the server's SETTINGS
)

// read reads the server's frames. greeted is closed when its SETTINGS have arrived, or the connection has
// ended.
func (p *peer) read(r reading, greeted chan struct{}) {
	first := true
	defer func() {
		p.mu.Lock()
		p.over = true
		p.cond.Broadcast()
		p.mu.Unlock()
		if first {
			close(greeted)
		}
	}()
	for {
		f, err := p.fr.ReadFrame()
		if err != nil {
			return
		}
		p.mu.Lock()
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if f.IsAck() {
				p.acked++
				break
			}
			if v, ok := f.Value(http2.SettingInitialWindowSize); ok {
				for id := range p.streams {
					p.streams[id] += int(v) - p.initial
				}
				p.initial = int(v)
			}
			if v, ok := f.Value(http2.SettingMaxConcurrentStreams); ok {
				p.permits = int(min(v, math.MaxInt32))
			}
			if first {
				first = false
				close(greeted)
			}
		case *http2.WindowUpdateFrame:
			if f.StreamID == 0 {
				p.conn += int(f.Increment)
			} else if _, ok := p.streams[f.StreamID]; ok {
				p.streams[f.StreamID] += int(f.Increment)
			}
		case *http2.RSTStreamFrame:
			delete(p.streams, f.StreamID)
		case *http2.GoAwayFrame:
			p.mu.Unlock()
			return
		}
		p.cond.Broadcast()
		p.mu.Unlock()
		if r == deaf && !first {
			return
		}
	}
}

// done reports whether the server has ended the connection. A peer that does not read finds out by writing.
func (p *peer) done(r reading) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.over && r == listens
}

// open begins a request of a method, with the given fields in addition to the usual ones.
func (p *peer) open(method string, ending ending, kv ...string) (uint32, error) {
	id := p.next
	p.next += 2
	p.mu.Lock()
	p.streams[id] = p.initial
	p.mu.Unlock()
	return id, p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndHeaders: true, EndStream: ending == ends, BlockFragment: p.block(method, kv...)})
}

type ending int

const (
	goesOn ending = iota
	ends
)

// block encodes a request's fields. It is valid until the next call.
func (p *peer) block(method string, kv ...string) []byte {
	p.buf.Reset()
	usual := []string{":method", "POST", ":scheme", p.scheme, ":path", "/grpc.testing.TestService/" + method,
		":authority", "x", "content-type", "application/grpc", "te", "trailers"}
	for _, fs := range [][]string{usual, kv} {
		for i := 0; i < len(fs); i += 2 {
			p.enc.WriteField(hpack.HeaderField{Name: fs[i], Value: fs[i+1]})
		}
	}
	return p.buf.Bytes()
}

// room is how many of n bytes the server's windows allow on a stream now.
func (p *peer) room(id uint32, n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n = max(0, min(n, 16384, p.conn, p.streams[id]))
	if n > 0 {
		p.conn -= n
		p.streams[id] -= n
	}
	return n
}

// data sends as much of b as the windows allow.
func (p *peer) data(id uint32, b []byte, e ending) (int, error) {
	n := p.room(id, len(b))
	if n == 0 {
		return 0, nil
	}
	return n, p.fr.WriteData(id, e == ends && n == len(b), b[:n])
}

// wait sends all of b, waiting for windows.
func (p *peer) wait(id uint32, b []byte, e ending) error {
	for len(b) > 0 {
		n, err := p.data(id, b, e)
		if err != nil {
			return err
		}
		b = b[n:]
		if n > 0 {
			continue
		}
		if err := p.out.Flush(); err != nil {
			return err
		}
		p.mu.Lock()
		for !p.over && (p.conn <= 0 || p.streams[id] <= 0) {
			if _, ok := p.streams[id]; !ok {
				p.mu.Unlock()
				return nil // it was reset
			}
			p.cond.Wait()
		}
		over := p.over
		p.mu.Unlock()
		if over {
			return errOver
		}
	}
	return nil
}

// sync returns when the server has read everything that was sent, or ended the connection. It waits for an acknowledged
// SETTINGS frame: servers limit PINGs.
func (p *peer) sync() error {
	p.settings()
	if err := p.out.Flush(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.over && p.acked < p.sent {
		p.cond.Wait()
	}
	if p.over {
		return errOver
	}
	return nil
}

// permitted is how many streams the server permits.
func (p *peer) permitted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.permits
}

// settings sends SETTINGS.
func (p *peer) settings(ss ...http2.Setting) error {
	p.mu.Lock()
	p.sent++
	p.mu.Unlock()
	return p.fr.WriteSettings(ss...)
}

// message is a gRPC message of n zero bytes, as it is framed.
func message(flag byte, n int) []byte {
	b := make([]byte, 5+n)
	b[0] = flag
	binary.BigEndian.PutUint32(b[1:], uint32(n))
	return b
}

// stalled reports whether err means that the server has stopped reading.
func stalled(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
