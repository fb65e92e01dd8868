package h2

import (
	"testing"

	"golang.org/x/net/http2"
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

// TestPriorityUpdate sends PRIORITY_UPDATE before and after a stream is opened.
func TestPriorityUpdate(t *testing.T) {
	got := make(chan Priority, 8)
	r, _, _ := rawServer(t, Config{}, func(s *Stream, k *call) {
		s.c.mu.Lock()
		got <- s.priority
		s.c.mu.Unlock()
	})
	update := func(id byte, value string) {
		r.fr.WriteRawFrame(http2.FrameType(framePriorityUpdate), 0, 0, append([]byte{0, 0, 0, id}, value...))
	}
	update(1, "u=0")
	r.request(1, End)
	if p := <-got; p != (Priority{0, false}) {
		t.Errorf("a priority sent before the stream: %+v", p)
	}
	r.request(3, More)
	update(3, "u=6, i")
	r.fr.WriteData(3, true, nil)
	if p := <-got; p != (Priority{6, true}) {
		t.Errorf("a priority sent after the stream was opened: %+v", p)
	}
	r.request(5, End)
	if p := <-got; p != DefaultPriority() {
		t.Errorf("without PRIORITY_UPDATE: %+v", p)
	}
	r.fr.WriteRawFrame(http2.FrameType(framePriorityUpdate), 0, 7, []byte{0, 0, 0, 7})
	r.wantGoAway(ProtocolError)
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
	r, s, _ := rawServer(t, Config{}, nil)
	for i := range 1000 {
		id := uint32(2*i + 1001)
		r.fr.WriteRawFrame(http2.FrameType(framePriorityUpdate), 0, 0, []byte{0, 0, byte(id >> 8), byte(id), 'i'})
	}
	r.lives(1)
	s.Close()
	<-s.Done()
	if n := len(s.in.early); n > maxEarlyPriorities {
		t.Errorf("%d priorities kept, at most %d allowed", n, maxEarlyPriorities)
	}
}
