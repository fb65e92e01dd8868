package smb

import (
	"github.com/tarn-go/tarn/debug/endpoint"
)

// Endpoint implements endpoint.Source: a session can be added to the debug page. It has no figures of the sessions with other servers
// that DFS links led to.
func (s *Session) Endpoint() endpoint.State {
	info := s.Info()
	session := &endpoint.Session{Server: info.Addr}
	for _, server := range s.servers {
		session.Servers = append(session.Servers, server.addr)
	}
	e := endpoint.State{Kind: "SMB session", Name: info.Addr, Session: session}
	c, closed := s.current()
	session.Closed = closed
	session.Received, session.Sent, session.Reconnects = s.traffic.Received.Load(), s.traffic.Sent.Load(), s.reconnects.Load()
	if c == nil {
		return e
	}
	session.Dialect, session.Protection = info.Dialect.String(), info.protection()
	if !c.Alive() {
		return e
	}
	f := c.Figures()
	e.Conns = 1
	session.Age, session.InFlight, session.Credits, session.Waiting = f.Age, f.InFlight, f.Credits, f.Waiting
	return e
}

// protection says in words how messages are protected.
func (i SessionInfo) protection() string {
	switch {
	case i.Encrypted:
		return "encrypted with " + i.Cipher.String()
	case i.Signing:
		return "signed with " + i.Signer.String()
	}
	return "none"
}
