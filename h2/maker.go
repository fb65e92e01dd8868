package h2

import (
	"net"
	"time"
)

// Maker makes the connections of one configuration, which is checked once and
// shared by them. It is safe for concurrent use.
type Maker struct {
	cfg      Config
	side     side
	counters *counters
}

// Servers returns the Maker of servers' connections. The error says what is wrong
// with cfg.
func Servers(cfg Config) (*Maker, error) {
	if cfg.MaxStreams == 0 {
		cfg.MaxStreams = defaultStreams
	}
	return newMaker(cfg, server)
}

// Clients returns the Maker of clients' connections. The error says what is wrong
// with cfg.
func Clients(cfg Config) (*Maker, error) { return newMaker(cfg, client) }

func newMaker(cfg Config, side side) (*Maker, error) {
	cfg, err := cfg.normal()
	if err != nil {
		return nil, err
	}
	return &Maker{cfg, side, new(counters)}, nil
}

// Make returns this side of nc, which it takes over; nothing is written or read
// before Run or Start. A client may open streams at once.
func (m *Maker) Make(nc net.Conn, h Handler) *Conn {
	c := &Conn{nc: nc, side: m.side, cfg: &m.cfg, counters: m.counters, h: h, nextID: 1}
	m.counters.conns.Add(1)
	c.events, _ = h.(ConnHandler)
	c.batch, _ = h.(BatchHandler)
	c.enc.Init()
	c.peer.init()
	c.send.init(c)
	c.inflow.init(c.cfg)
	c.limiter.init(&c.cfg.Limits)
	c.greet()
	return c
}

// WithKeepalive returns a Maker like m whose connections ping a silent peer after d, which
// is above 0. They are counted in m's Stats.
func (m *Maker) WithKeepalive(d time.Duration) *Maker {
	next := *m
	next.cfg.Keepalive.Time = d
	return &next
}

// NewServer returns the server's side of nc, which it takes over; nothing is
// written or read before Run. The error says what is wrong with cfg; nc is then
// still the caller's.
func NewServer(nc net.Conn, h Handler, cfg Config) (*Conn, error) {
	m, err := Servers(cfg)
	if err != nil {
		return nil, err
	}
	return m.Make(nc, h), nil
}

// NewClient returns the client's side of nc, which it takes over. Streams may be
// opened at once; Run must be running for anything to come back. The error says
// what is wrong with cfg; nc is then still the caller's.
func NewClient(nc net.Conn, h Handler, cfg Config) (*Conn, error) {
	m, err := Clients(cfg)
	if err != nil {
		return nil, err
	}
	return m.Make(nc, h), nil
}
