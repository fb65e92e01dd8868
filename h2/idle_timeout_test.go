package h2

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn/tarntest"
)

// TestIdleTimeoutOfServers: a server's connection ends, with two GOAWAYs that say why, when no stream has been open for IdleTimeout since the
// client's SETTINGS or since the last stream was released. Before the SETTINGS it does not: how long they may take is another limit.
func TestIdleTimeoutOfServers(t *testing.T) {
	const s = time.Second
	for name, x := range map[string]struct {
		timeout  time.Duration
		greets   time.Duration   // when the client's SETTINGS come
		requests []time.Duration // when they come, after the SETTINGS
		took     takingTime
		want     []string // one GOAWAY tells the others' times
	}{
		"never used":       {timeout: 10 * s, want: []string{"10s GOAWAY", "10s GOAWAY"}},
		"late SETTINGS":    {timeout: 10 * s, greets: 25 * s, want: []string{"35s GOAWAY", "35s GOAWAY"}},
		"a short stream":   {timeout: 10 * s, requests: []time.Duration{4 * s}, took: takingTime{s}, want: []string{"15s GOAWAY", "15s GOAWAY"}},
		"a long stream":    {timeout: 10 * s, requests: []time.Duration{4 * s}, took: takingTime{33 * s}, want: []string{"47s GOAWAY", "47s GOAWAY"}},
		"streams overlap":  {timeout: 10 * s, requests: []time.Duration{4 * s, 4 * s}, took: takingTime{33 * s, s}, want: []string{"47s GOAWAY", "47s GOAWAY"}},
		"one after others": {timeout: 10 * s, requests: []time.Duration{9 * s, 19 * s, 29 * s}, took: takingTime{s, s, s}, want: []string{"40s GOAWAY", "40s GOAWAY"}},
		"off":              {timeout: 0, requests: []time.Duration{s}, took: takingTime{s}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := bufferedPipe()
				cfg := Config{Pool: tarntest.NewPool(t), IdleTimeout: x.timeout, IdleDebug: "unused", Policy: PingPolicy{MinTime: -1}}
				toServer(t, a, b, x.took, cfg, func(t *testing.T, _ *Maker, _ *Conn, r *raw) {
					begun := time.Now()
					var mu sync.Mutex // for r's Framer
					send := func(f func()) {
						mu.Lock()
						defer mu.Unlock()
						f()
					}
					go func() {
						io.WriteString(a, Preface)
						<-time.After(x.greets)
						send(func() { r.fr.WriteSettings() })
						for i, at := range x.requests {
							<-time.After(time.Until(begun.Add(x.greets + at)))
							send(func() { r.request(uint32(2*i+1), End) })
						}
						if x.timeout == 0 {
							<-time.After(24 * time.Hour)
							a.Close()
						}
					}()
					got := []string(nil)
					for len(got) < 2 {
						f, err := r.fr.ReadFrame()
						if err != nil {
							break
						}
						switch f := f.(type) {
						case *http2.PingFrame:
							send(func() { r.fr.WritePing(true, f.Data) })
						case *http2.GoAwayFrame:
							got = append(got, fmt.Sprint(time.Since(begun), " GOAWAY"))
							if f.ErrCode != http2.ErrCodeNo || string(f.DebugData()) != "unused" {
								t.Errorf("GOAWAY of %v, %q", f.ErrCode, f.DebugData())
							}
						}
					}
					if !slices.Equal(got, x.want) {
						t.Errorf("%v, want %v", got, x.want)
					}
				})
			})
		})
	}
}

// TestIdleTimeoutOfClients: a client's connection ends, with a GOAWAY that says why, when no stream has been open for IdleTimeout since it
// began to run or since the last stream was released.
func TestIdleTimeoutOfClients(t *testing.T) {
	const timeout = 10 * time.Second
	for name, x := range map[string]struct {
		greets bool // the server sends SETTINGS
		pause  time.Duration
		calls  int // one after the other, each after a pause, of a second
		want   time.Duration
	}{
		"never used":        {true, 0, 0, timeout},
		"no SETTINGS":       {false, 0, 0, timeout},
		"calls":             {true, 9 * time.Second, 3, 30*time.Second + timeout},
		"a pause too long":  {true, 11 * time.Second, 1, timeout},
		"long after a call": {true, 0, 1, time.Second + timeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := bufferedPipe()
				c, err := NewClient(a, newRecorder(t), Config{Pool: tarntest.NewPool(t), IdleTimeout: timeout, IdleDebug: "unused"})
				if err != nil {
					t.Fatal(err)
				}
				r := newRaw(t, b)
				begun, away := time.Now(), make(chan *http2.GoAwayFrame, 1)
				go func() {
					io.ReadFull(b, make([]byte, len(Preface)))
					if x.greets {
						r.fr.WriteSettings()
					}
					for {
						f, err := r.fr.ReadFrame()
						if err != nil {
							b.Close()
							return
						}
						switch f := f.(type) {
						case *http2.HeadersFrame:
							<-time.After(time.Second)
							r.headers(f.StreamID, End, ":status", "200")
						case *http2.GoAwayFrame:
							if string(f.DebugData()) != "unused" {
								t.Errorf("GOAWAY with %q", f.DebugData())
							}
							away <- f
							b.Close()
						}
					}
				}()
				ended := make(chan error, 1)
				go func() { ended <- c.Run() }()
				for range x.calls {
					<-time.After(x.pause)
					s, err := c.Open(context.Background(), nil, &Out{Block: testRequest, Ending: End})
					if err != nil {
						if x.pause < timeout {
							t.Error(err)
						}
						break
					}
					<-time.After(time.Second)
					synctest.Wait()
					s.Release()
				}
				if err := <-ended; err != nil {
					t.Error(err)
				}
				<-away
				if got := time.Since(begun); got != max(x.want, time.Duration(x.calls)*x.pause) {
					t.Errorf("it has ended after %v, want %v", got, x.want)
				}
				if err := c.Err(); err != ErrClosed {
					t.Errorf("Err: %v", err)
				}
			})
		})
	}
}
