package main

import (
	"math"
	"sync"
	"time"

	"github.com/tarn-go/tarn/debug/endpoint"
)

// shop is an invented gRPC server whose load rises and falls.
type shop struct {
	mu    sync.Mutex
	start time.Time
	last  time.Time

	cart, orders float64 // calls that have ended
	failed       float64 // of orders
	seconds      float64 // that they took
}

func newShop(now time.Time) *shop { return &shop{start: now, last: now} }

// Endpoint moves the figures on to the present.
func (s *shop) Endpoint() endpoint.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	t, dt := now.Sub(s.start).Seconds(), now.Sub(s.last).Seconds()
	s.last = now
	rate := 420 + 260*math.Sin(t/9) + 60*math.Sin(t/1.7)
	slow := 0.03 + 0.02*math.Sin(t/13)
	bad := 0.01 + 0.03*max(0, math.Sin(t/17))
	s.cart += rate * dt
	s.orders += rate / 6 * dt
	s.failed += rate / 6 * bad * dt
	s.seconds += (rate*0.0008 + rate/6*slow) * dt

	active := 1 + int64(rate/6*slow)
	cart, orders, failed := uint64(s.cart), uint64(s.orders), uint64(s.failed)
	return endpoint.State{
		Kind: "gRPC server", Name: "127.0.0.1:50051",
		Conns: 3, Streams: 12 + int(active),
		ResetsReceived: failed / 3, Refused: 7, KeepaliveTimeouts: 1,
		GoAwaysSent: map[string]uint64{"NO_ERROR": 5, "ENHANCE_YOUR_CALM": 2},
		Ended:       map[string]uint64{"too many resets": 2},
		Connections: []endpoint.Conn{
			{Peer: "192.0.2.7:41034", Age: 26 * time.Hour, Streams: 8 + int(active), Blocked: 4, RecvWindow: 1 << 20, StreamWindow: 4 << 20, Unread: 70 << 10, RTT: 180 * time.Microsecond},
			{Peer: "192.0.2.9:55002", Age: now.Sub(s.start) + time.Minute, Streams: 4, SendWindow: 60_000, RecvWindow: 1 << 20, StreamWindow: 256 << 10, Draining: true},
			{Peer: "[2001:db8::1]:60443", Age: now.Sub(s.start), SendWindow: 64 << 10, RecvWindow: 1 << 20, StreamWindow: 256 << 10},
		},
		Observed: true,
		Calls:    cart + orders + uint64(active) + 8, Done: cart + orders, Failed: failed, Active: active + 8, Seconds: s.seconds,
		Methods: []endpoint.Method{
			{Name: "/shop.Cart/Get", Started: cart, Codes: map[string]uint64{"OK": cart}, Seconds: s.cart * 0.0008, P50: 0.0005, P99: 0.004},
			{Name: "/shop.Orders/Place", Started: orders + uint64(active), Active: active, Codes: map[string]uint64{"OK": orders - failed, "Unavailable": failed - failed/40, "DeadlineExceeded": failed / 40}, Seconds: s.seconds - s.cart*0.0008, P50: 0.03, P99: 1.4, Slowest: &endpoint.Slow{Seconds: 1.7, Trace: "4bf92f3577b34da6a3ce929d0e0e4736"}},
			{Name: "/shop.Events/Watch", Started: 8, Active: 8, Codes: map[string]uint64{}},
		},
		Waits: []endpoint.Wait{
			{Method: "/shop.Events/Watch", For: "the peer's window or the network", Calls: 4, Oldest: time.Minute},
			{Method: "/shop.Events/Watch", For: "the client's message", Calls: 4, Oldest: time.Minute},
			{Method: "/shop.Orders/Place", For: "its handler", Calls: int(active), Oldest: 700 * time.Millisecond},
		},
	}
}
