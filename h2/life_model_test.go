package h2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/tarntest"
)

// lived is the handler of a connection whose life TestLifeModel follows. The test looks at it when all goroutines wait, and takes and gives
// up mu before they go on.
type lived struct {
	mu      sync.Mutex
	streams []*Stream // not released
	last    uint32    // the highest that was handed to it
	resets  map[uint32]int
}

func (h *lived) OnHeaders(s *Stream, _ *Header, _ Ending) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.Value == nil { // a request
		s.Value = h
		h.streams = append(h.streams, s)
		h.last = max(h.last, s.ID())
	}
}
func (h *lived) OnData(_ *Stream, b tarn.Buffer, _ Ending) { b.Free() }
func (h *lived) OnReset(s *Stream, _ error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.resets[s.ID()]++
}

// lifeModel says what a program and a peer may know of a connection: whether streams can be opened, and why it ends.
type lifeModel struct {
	side    side
	refuses bool   // no stream can be opened, or none is accepted
	ends    string // why the connection ends; empty: it does not
	goAway  Code   // of the peer's GOAWAY, if it has sent one
	told    bool   // it has
}

// end notes why the connection ends, unless it does already.
func (m *lifeModel) end(why string) {
	m.refuses = true
	if m.ends == "" {
		m.ends = why
	}
}

// class is a connection's error as the model says it.
func class(err error) string {
	var ce *ConnError
	switch {
	case err == nil:
		return ""
	case err == ErrClosed:
		return "closed"
	case errors.As(err, &ce) && ce.Reason == noKeepaliveAnswer:
		return "silent"
	case errors.As(err, &ce):
		return fmt.Sprint(ce.Fault, " ", ce.Code)
	case err == io.EOF:
		return "EOF"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "unexpected EOF"
	case errors.Is(err, io.ErrClosedPipe):
		return "write"
	}
	return err.Error()
}

// lifeRun is one sequence of events.
type lifeRun struct {
	t      *testing.T
	c      *Conn
	h      *lived
	r      *raw
	m      lifeModel
	next   uint32 // the next request's stream
	silent bool   // the peer answers no PING
	mute   bool   // nothing can be written to it
	log    []string
	peer   *memConn
}

// lifeSteps are the events, with how often each comes.
var lifeSteps = []struct {
	name string
	odds int
	do   func(x *lifeRun)
}{
	{"open", 8, func(x *lifeRun) {
		if x.c.side == server {
			before := len(x.h.streams)
			x.r.request(x.next, End)
			x.next += 2
			synctest.Wait()
			if served := len(x.h.streams) > before; served && x.m.refuses || !served && !x.m.refuses {
				x.fail("the request was served: %v", served)
			}
			return
		}
		s, err := x.c.Open(nil, x.h, &Out{Block: testRequest, Ending: End})
		if (err != nil) != x.m.refuses {
			x.fail("Open: %v", err)
		}
		if err == nil {
			x.h.streams = append(x.h.streams, s)
		}
	}},
	{"finish", 8, func(x *lifeRun) {
		if len(x.h.streams) == 0 {
			return
		}
		s := x.h.streams[0]
		if x.c.side == client {
			x.r.headers(s.ID(), End, ":status", "200")
			synctest.Wait()
		} else if err := s.Write(nil, &Out{Block: testResponse, TrailerBlock: testTrailer}); (err != nil) != (x.m.ends != "") {
			x.fail("Write: %v", err)
		}
		x.release()
	}},
	{"give up", 4, func(x *lifeRun) {
		if len(x.h.streams) > 0 {
			x.release()
		}
	}},
	{"ping", 2, func(x *lifeRun) {
		if x.silent {
			return
		}
		if _, err := x.c.Ping(context.Background()); (err != nil) != (x.m.ends != "") {
			x.fail("Ping: %v", err)
		}
	}},
	{"a second", 6, func(x *lifeRun) { <-time.After(time.Second) }},
	{"a minute", 1, func(x *lifeRun) {
		<-time.After(time.Minute)
		if x.silent && len(x.h.streams) > 0 {
			x.m.end("silent")
		}
	}},
	{"the peer answers no PING", 1, func(x *lifeRun) { x.silent = true }},
	{"Shutdown", 2, func(x *lifeRun) { x.c.Shutdown("over"); x.m.refuses = x.m.refuses || x.c.side == client }},
	{"Close", 1, func(x *lifeRun) { x.c.Close(); x.m.end("closed") }},
	{"Abort", 1, func(x *lifeRun) { x.c.Abort(InternalError, "why"); x.m.end("0 INTERNAL_ERROR") }},
	{"GOAWAY", 2, func(x *lifeRun) { x.goAway(NoError) }},
	{"GOAWAY with a code", 1, func(x *lifeRun) { x.goAway(EnhanceYourCalm) }},
	{"a fault", 1, func(x *lifeRun) {
		x.r.fr.WriteRawFrame(http2.FramePing, 0, 1, make([]byte, 8))
		synctest.Wait()
		x.m.end("1 PROTOCOL_ERROR")
	}},
	{"the peer closes", 1, func(x *lifeRun) { x.closePeer() }},
	{"nothing can be written", 1, func(x *lifeRun) {
		x.mute = true
		x.peer.r.close()
		x.r.fr.WritePing(false, [8]byte{1}) // whose answer shows it
		synctest.Wait()
		x.m.end("write")
	}},
}

func (x *lifeRun) fail(format string, args ...any) {
	x.t.Errorf("%v: %s (model %+v)", x.log, fmt.Sprintf(format, args...), x.m)
}

func (x *lifeRun) release() {
	s := x.h.streams[0]
	x.h.streams = x.h.streams[1:]
	s.Release()
}

func (x *lifeRun) goAway(code Code) {
	last := uint32(maxStreamID)
	if x.m.told {
		last = 1<<31 - 3
	}
	reads := x.c.Err() == nil && (x.m.ends == "" || x.m.ends == "write") // after a write has failed Run reads on
	x.r.fr.WriteGoAway(last, http2.ErrCode(code), nil)
	synctest.Wait()
	if reads {
		x.m.told, x.m.goAway = true, code
	}
	x.m.refuses = x.m.refuses || x.c.side == client
}

func (x *lifeRun) closePeer() {
	x.peer.Close()
	synctest.Wait()
	why := "EOF"
	switch {
	case x.m.told && (x.m.goAway != NoError || len(x.h.streams) > 0):
		why = "2 " + x.m.goAway.String()
	case len(x.h.streams) > 0:
		why = "unexpected EOF"
	}
	x.m.end(why)
}

// serve plays the peer: it answers PINGs and SETTINGS, and closes when the connection under test has ended its side.
func (x *lifeRun) serve() {
	answers := http2.NewFramer(x.peer, nil)
	for {
		f, err := x.r.fr.ReadFrame()
		x.h.mu.Lock()
		mute, silent := x.mute, x.silent
		x.h.mu.Unlock()
		if err != nil {
			if !mute {
				x.peer.Close()
			}
			return
		}
		x.r.note(f)
		switch f := f.(type) {
		case *http2.PingFrame:
			if !f.IsAck() && !silent {
				answers.WritePing(true, f.Data)
			}
		case *http2.SettingsFrame:
			if !f.IsAck() {
				answers.WriteSettingsAck()
			}
		}
	}
}

// settle takes over what the connection shows of a draining end, which needs no further event, and compares it with the model.
func (x *lifeRun) settle() {
	synctest.Wait()
	last := func(s seen) bool { return s.typ == http2.FrameGoAway && s.id < maxStreamID }
	if x.c.side == server && x.r.count(last) > 0 {
		x.m.refuses = true
	}
	if x.m.refuses && len(x.h.streams) == 0 {
		x.m.end("closed") // a draining connection without streams
	}
	if err := x.c.Unusable(); x.c.side == client && (err != nil) != x.m.refuses {
		x.fail("Unusable: %v", err)
	}
	if x.silent && class(x.c.Err()) == "silent" {
		x.m.end("silent") // seconds add up, too
	}
	if err := x.c.Err(); err != nil && x.m.ends == "" {
		x.fail("ended with %v", err)
	}
	x.h.mu.Lock()
	defer x.h.mu.Unlock()
	for id, n := range x.h.resets {
		if n > 1 {
			x.fail("OnReset of stream %d: %d times", id, n)
		}
	}
}

// TestLifeModel puts connections through random sequences of what programs, peers, time and networks do, and compares what shows of their
// lives with a model: whether streams can be opened, why and when they end, that no stream beyond a GOAWAY is served, and that each stream
// that is left ends once.
func TestLifeModel(t *testing.T) {
	seeds := uint64(400)
	if testing.Short() {
		seeds = 100
	}
	for _, s := range []side{client, server} {
		t.Run([...]string{client: "client", server: "server"}[s], func(t *testing.T) {
			for seed := range seeds {
				if !t.Run(fmt.Sprint(seed), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { liveThrough(t, s, rand.New(rand.NewPCG(seed, uint64(s)))) })
				}) {
					return
				}
			}
		})
	}
}

func liveThrough(t *testing.T, s side, rnd *rand.Rand) {
	a, b := bufferedPipe()
	maker := Clients
	if s == server {
		maker = Servers
	}
	m, err := maker(Config{Pool: tarntest.NewPool(t), Keepalive: Keepalive{Time: 10 * time.Second, Timeout: 5 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	x := &lifeRun{t: t, h: &lived{resets: map[uint32]int{}}, r: newRaw(t, b), next: 1, peer: b.(*memConn), m: lifeModel{side: s}}
	x.c = m.Make(a, x.h)
	run := make(chan struct{})
	go func() { defer close(run); x.c.Run() }()
	if s == server {
		io.WriteString(b, Preface)
	} else {
		io.ReadFull(b, []byte(Preface))
	}
	x.r.fr.WriteSettings()
	go x.serve()
	synctest.Wait()
	odds := 0
	for _, e := range lifeSteps {
		odds += e.odds
	}
	for range 1 + rnd.IntN(24) {
		n := rnd.IntN(odds)
		for _, e := range lifeSteps {
			if n -= e.odds; n < 0 {
				x.log = append(x.log, e.name)
				e.do(x)
				break
			}
		}
		if x.settle(); t.Failed() {
			break
		}
	}
	x.c.Close()
	x.m.end("closed")
	begun := time.Now()
	<-run
	if d := time.Since(begun); d > 2*abortTimeout {
		x.fail("ended %v after Close", d)
	}
	select {
	case <-x.c.Done():
	default:
		x.fail("Run has returned, and Done is not closed")
	}
	// After a write has failed Run reads on, and the peer may say why.
	told := x.m.ends == "write" && x.m.told
	if got := class(x.c.Err()); got != x.m.ends && !(told && (got == "EOF" || got == "2 "+x.m.goAway.String())) {
		x.fail("ended with %v (%q), not %q", x.c.Err(), got, x.m.ends)
	}
	for _, s := range x.h.streams {
		s.Release()
	}
	synctest.Wait()
	x.r.mu.Lock()
	defer x.r.mu.Unlock()
	named := uint32(maxStreamID)
	for _, f := range x.r.seen {
		if f.typ != http2.FrameGoAway {
			continue
		}
		if f.id > named {
			x.fail("a GOAWAY of %d follows one of %d", f.id, named)
		}
		named = f.id
	}
	if s == server && x.h.last > named {
		x.fail("stream %d was served, GOAWAY named %d", x.h.last, named)
	}
	b.Close()
}
