package h2

import (
	"context"
	"encoding/binary"
	"io"
	"slices"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/tarntest"
)

func TestParsePriority(t *testing.T) {
	for value, want := range map[string]Priority{
		"":                    {3, false},
		"u=0":                 {0, false},
		"u=7, i":              {7, true},
		"i,u=2":               {2, true},
		"i=?1;x=y ,  u=5":     {5, true},
		"i, i=?0":             {3, false},
		"u=8":                 {3, false},
		"u=-1, u=x, u=":       {3, false},
		`a="u=1, \", i", u=6`: {6, false},
		"u=1;q=2":             {1, false},
	} {
		if got := ParsePriority(value); got != want {
			t.Errorf("%q: %+v, not %+v", value, got, want)
		}
	}
	for _, p := range []Priority{{0, false}, {7, true}} {
		if got := ParsePriority(p.String()); got != p {
			t.Errorf("%+v as %q is parsed as %+v", p, p.String(), got)
		}
	}
}

// priorityRaw is a raw client whose requests may carry a priority field, and a channel with the
// priority of each stream once its request has ended. The handler treats the field as a layer
// above does.
func priorityRaw(t *testing.T, cfg Config) (*raw, *Conn, chan Priority) {
	got := make(chan Priority, 8)
	r, c, _ := rawServer(t, cfg, tellPriority(got))
	return r, c, got
}

func tellPriority(got chan<- Priority) func(*Stream, *call) {
	return func(s *Stream, k *call) {
		for _, f := range k.fields {
			if f.Name == "priority" {
				s.SetInitialPriority(ParsePriority(f.Value))
			}
		}
		s.c.mu.Lock()
		got <- s.priority
		s.c.mu.Unlock()
		s.Write(context.Background(), &Out{Block: testResponse, Ending: End})
	}
}

// priorityUpdate sends PRIORITY_UPDATE.
func (r *raw) priorityUpdate(id uint32, value string) {
	r.fr.WriteRawFrame(http2.FrameType(framePriorityUpdate), 0, 0, append(binary.BigEndian.AppendUint32(nil, id), value...))
}

// TestPriorityUpdate sends PRIORITY_UPDATE before and after a stream is opened, and a priority field
// with the request.
func TestPriorityUpdate(t *testing.T) {
	r, _, got := priorityRaw(t, Config{})
	id := uint32(1)
	for _, c := range []struct {
		name                 string
		before, field, after string // "": not sent
		want                 Priority
	}{
		{name: "nothing", want: Priority{3, true}},
		{name: "before the request", before: "u=0", want: Priority{0, false}},
		{name: "after the stream is opened", after: "u=6, i", want: Priority{6, true}},
		{name: "field", field: "u=1", want: Priority{1, false}},
		{name: "before, and field", before: "u=5, i", field: "u=1", want: Priority{5, true}},
		{name: "field, and after", field: "u=1", after: "u=6", want: Priority{6, false}},
		{name: "before, field, and after", before: "u=5", field: "u=1", after: "u=7", want: Priority{7, false}},
		{name: "malformed before, and field", before: "u=9", field: "u=1", want: DefaultPriority()},
	} {
		if c.before != "" {
			r.priorityUpdate(id, c.before)
		}
		fields := rawRequest
		if c.field != "" {
			fields = append(slices.Clone(fields), "priority", c.field)
		}
		r.headers(id, More, fields...)
		if c.after != "" {
			r.priorityUpdate(id, c.after)
		}
		r.fr.WriteData(id, true, nil)
		if p := <-got; p != c.want {
			t.Errorf("%s: %+v, not %+v", c.name, p, c.want)
		}
		id += 2
	}
	r.fr.WriteRawFrame(http2.FrameType(framePriorityUpdate), 0, 7, []byte{0, 0, 0, 7})
	r.wantGoAway(ProtocolError)
}

// TestPriorityUpdateOfIdleStreams: the last PRIORITY_UPDATE before the request counts, whatever its value,
// one for a stream that is skipped is forgotten, and one for a stream that has ended is ignored.
func TestPriorityUpdateOfIdleStreams(t *testing.T) {
	r, _, got := priorityRaw(t, Config{MaxStreams: 2})
	r.fr.WriteSettingsAck() // the limit is known
	want := func(id uint32, p Priority) {
		t.Helper()
		r.headers(id, End, append(slices.Clone(rawRequest), "priority", "u=4")...)
		if g := <-got; g != p {
			t.Errorf("stream %d: %+v, not %+v", id, g, p)
		}
		r.wait("end", func(s seen) bool { return s.id == id && s.end })
	}
	r.priorityUpdate(1, "u=0")
	r.priorityUpdate(5, "u=1, i")
	r.priorityUpdate(1, "u=2")
	r.priorityUpdate(1, "u=0")
	want(1, Priority{0, false})
	want(3, Priority{4, false})
	want(5, Priority{1, true})
	for id := range uint32(100) { // of streams that have ended: 1 to 5
		r.priorityUpdate(1+2*(id%3), "u=7")
	}
	r.priorityUpdate(7, "u=7")
	r.priorityUpdate(9, "u=6")
	want(9, Priority{6, false}) // 7 is closed by it: RFC 9113 section 5.1.1
	r.priorityUpdate(11, "u=5")
	r.priorityUpdate(13, "u=5")
	want(13, Priority{5, false})
	r.priorityUpdate(15, "u=1")
	r.priorityUpdate(17, "u=2")
	r.priorityUpdate(15, "u=3")
	want(15, Priority{3, false})
	r.priorityUpdate(19, "u=2")
	r.priorityUpdate(21, "u=2") // the third idle one: RFC 9218 section 7.1
	r.wantGoAway(ProtocolError)
}

// TestEarlyPriorityKeepsBusy: a connection that has the priority of a stream that the peer has yet to open does not
// become idle, which would lose it, and seldom checks whether it may. Once the stream has ended it becomes idle.
func TestEarlyPriorityKeepsBusy(t *testing.T) {
	faultnet.NeedsTCP(t, "only sockets are watched while they are idle")
	got := make(chan Priority, 1)
	a, b := tcpWiring(t)
	rec := newRecorder(t)
	rec.serve = tellPriority(got)
	s, err := NewServer(b, rec, Config{Pool: tarntest.NewPool(t), idleAfter: 100 * time.Microsecond, poller: quickPoller()})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	s.Start(func(error) { close(ended) })
	t.Cleanup(func() {
		s.Close()
		a.Close()
		<-ended
		rec.calls.Wait()
	})
	r := newRaw(t, a)
	io.WriteString(a, Preface)
	r.fr.WriteSettings()
	r.fr.WriteSettingsAck()
	go r.listen()
	r.priorityUpdate(1, "u=0")
	r.fr.WritePing(false, [8]byte{1})
	r.wait("answer to PING", func(s seen) bool { return s.typ == http2.FramePing && s.ack })
	eventually(t, "two deadlines", func() bool {
		if s.isIdle() {
			t.Fatal("the connection became idle")
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.idleBackoff >= 2
	}, s.idleness)
	r.headers(1, End, append(slices.Clone(rawRequest), "priority", "u=4")...)
	if p := <-got; p != (Priority{Urgency: 0}) {
		t.Errorf("the stream has priority %v", p)
	}
	awaitIdle(t, s)
}

func TestPriorityUpdateBroken(t *testing.T) {
	for name, c := range map[string]struct {
		payload []byte
		code    Code
	}{
		"short":       {[]byte{0, 0, 0}, FrameSizeError},
		"stream 0":    {[]byte{0, 0, 0, 0}, ProtocolError},
		"even stream": {[]byte{0, 0, 0, 2}, ProtocolError},
	} {
		t.Run(name, func(t *testing.T) {
			r, _, _ := rawServer(t, Config{}, nil)
			r.fr.WriteRawFrame(http2.FrameType(framePriorityUpdate), 0, 0, c.payload)
			r.wantGoAway(c.code)
		})
	}
}

// TestEarlyPrioritiesBounded: priorities of streams that are never opened do not
// pile up.
func TestEarlyPrioritiesBounded(t *testing.T) {
	r, s, _ := rawServer(t, Config{MaxStreams: 2000}, nil)
	for i := range 1000 {
		r.priorityUpdate(uint32(2*i+1001), "i")
	}
	r.lives(1)
	s.Close()
	<-s.Done()
	if n := len(s.in.early); n > maxEarlyPriorities {
		t.Errorf("%d priorities kept, at most %d allowed", n, maxEarlyPriorities)
	}
}
