package h2http_test

import (
	"encoding/binary"
	"net/http"
	"testing"

	"golang.org/x/net/http2"
)

// priorityUpdate sends PRIORITY_UPDATE (RFC 9218 section 7.1).
func (p *peer) priorityUpdate(id uint32, value string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fr.WriteRawFrame(0x10, 0, 0, append(binary.BigEndian.AppendUint32(nil, id), value...))
}

// ping waits until the server has taken every frame that was sent.
func (p *peer) ping() {
	p.mu.Lock()
	before := p.pongs
	p.fr.WritePing(false, [8]byte{})
	p.mu.Unlock()
	p.until("answer to a PING", func() bool { return p.pongs > before })
}

// TestPriorities has two responses wait for the connection's window: the more urgent
// one, which was asked for later, is sent first.
func TestPriorities(t *testing.T) {
	for name, c := range map[string]struct {
		request  []string // fields of the first and of the second request
		response string   // Priority that the second handler sets
		before   string   // PRIORITY_UPDATE for the second request, before it is sent
		after    string   // and once its handler runs
	}{
		"by the request":                   {request: []string{"u=7", "u=0"}},
		"by the response":                  {request: []string{"u=3", "u=5"}, response: "u=1"},
		"by an update before the request":  {request: []string{"u=3", "u=5"}, before: "u=1"},
		"by an update after the request":   {request: []string{"u=3", "u=5"}, after: "u=1"},
		"by an update after another":       {request: []string{"u=3", "u=5"}, before: "u=6", after: "u=1"},
		"by the response, after an update": {request: []string{"u=3", "u=5"}, before: "u=6", response: "u=1"},
		"by an update, after the response": {request: []string{"u=3", "u=5"}, after: "u=1", response: "u=6"},
	} {
		t.Run(name, func(t *testing.T) {
			attacked(t, func(t *testing.T, s stack) {
				const size = 100 << 10
				started := make(chan struct{}, 2)
				r := s.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if p := c.response; p != "" && r.URL.Path == "/2" {
						w.Header().Set("Priority", p)
					}
					w.WriteHeader(200)
					w.(http.Flusher).Flush()
					started <- struct{}{}
					w.Write(make([]byte, size))
				}))
				p := r.dialPeer(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
				p.request(1, end, "GET", "/first") // takes the connection's window
				p.until("the window's end", func() bool { s := p.streams[1]; return s != nil && s.data == 65535 })
				<-started
				p.request(3, end, "GET", "/1", "priority", c.request[0])
				<-started
				p.wait(3, 1)
				if c.before != "" {
					p.priorityUpdate(5, c.before)
				}
				p.request(5, end, "GET", "/2", "priority", c.request[1])
				<-started
				p.wait(5, 1)
				if c.after != "" {
					p.priorityUpdate(5, c.after)
					p.ping()
				}
				// The urgent handler waits for the window once a byte of window goes to it.
				total := func() int { return p.streams[1].data + p.streams[3].data + p.streams[5].data }
				for given, urgent := 65535, 0; urgent == 0; {
					p.window(0, 1)
					given++
					p.until("a byte", func() bool { urgent = p.streams[5].data; return total() == given })
				}
				p.window(0, size)
				p.until("end of the urgent stream", func() bool { return p.streams[5].ended })
				p.mu.Lock()
				other := p.streams[3].data
				p.mu.Unlock()
				if other > size/2 {
					t.Errorf("%d bytes of the less urgent response were sent before the urgent one's end", other)
				}
				p.window(0, 4*size)
				p.transcript(1)
				p.transcript(3)
			})
		})
	}
}
