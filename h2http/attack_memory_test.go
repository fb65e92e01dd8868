package h2http_test

import (
	"bytes"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/tarn-go/tarn/internal/faultnet"
)

// TestAttackHeaderBomb: many fields, of one byte each on the wire, on many streams whose handlers run do not hold more memory than with
// net/http: crumbs of a cookie, empty ones and ones that the dynamic table has, few of them and more than are permitted, which are
// answered 431, fields of one name, and of two in turns.
func TestAttackHeaderBomb(t *testing.T) {
	faultnet.NeedsTCP(t, "memory is measured, the relay's with it")
	const streams, conns = 200, 2
	idle := runtime.NumGoroutine()
	for _, x := range []struct {
		name   string
		fields []hpack.HeaderField // in turns
		count  int                 // of fields
	}{
		{"empty crumbs", []hpack.HeaderField{{Name: "cookie"}}, 490},
		{"too many crumbs", []hpack.HeaderField{{Name: "cookie", Value: strings.Repeat("a=b", 30)}}, 2000},
		{"one name", []hpack.HeaderField{{Name: "accept"}}, 490},
		{"two names", []hpack.HeaderField{{Name: "accept"}, {Name: "cookie"}}, 490},
	} {
		t.Run(x.name, func(t *testing.T) {
			held := func(t *testing.T, s stack) (bytesEach int64) {
				for end := time.Now().Add(untilLimit); runtime.NumGoroutine() > idle+8 && time.Now().Before(end); <-time.After(time.Millisecond) {
					// of the server before
				}
				b := &blocked{release: make(chan struct{})}
				r := s.start(t, b)
				defer close(b.release)
				var before, after runtime.MemStats
				runtime.GC()
				runtime.GC() // what a sync.Pool has goes with the second
				runtime.ReadMemStats(&before)
				for k := range conns {
					p := r.dialPeer(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
					var block bytes.Buffer
					enc := hpack.NewEncoder(&block)
					for i := range streams {
						block.Reset()
						for _, f := range []hpack.HeaderField{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: "/"}, {Name: ":authority", Value: "a"}} {
							enc.WriteField(f)
						}
						for j := range x.count {
							enc.WriteField(x.fields[j%len(x.fields)])
						}
						p.mu.Lock()
						p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true})
						p.mu.Unlock()
					}
					for end := time.Now().Add(untilLimit); ; <-time.After(time.Millisecond) {
						p.mu.Lock()
						answered := 0 // with 431, whose content waits
						for _, rec := range p.streams {
							answered += min(len(rec.events), 1)
						}
						err := p.err
						p.mu.Unlock()
						if int(b.running.Load())+(k+1)*answered >= (k+1)*streams {
							break
						}
						if err != nil || time.Now().After(end) {
							t.Fatalf("%d requests run, %d are answered, of %d: %v", b.running.Load(), answered, streams, err)
						}
					}
				}
				runtime.GC()
				runtime.GC() // what a sync.Pool has goes with the second
				runtime.ReadMemStats(&after)
				return (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / (streams * conns)
			}
			theirs := int64(0)
			for _, s := range stacks {
				if s.tls {
					continue
				}
				t.Run(s.name, func(t *testing.T) {
					n := held(t, s)
					t.Logf("%d bytes of heap a request", n)
					if !s.own {
						theirs = n
					} else if n > theirs*5/4+4<<10 {
						t.Errorf("net/http has %d", theirs)
					}
				})
			}
		})
	}
}
