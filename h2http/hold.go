package h2http

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"sync"
	"time"
)

// hold is a connection that http.Server counts instead of those that Serve does not pass
// to it: Shutdown returns when net/http's connections have ended, and this one ends when
// all of Serve's have. To the server it is a TLS connection that has agreed on HTTP/2,
// which it passes to the engine and waits for. A hold exists during Shutdown and Close
// only.
type hold struct {
	net.Conn               // one end of a pipe, for the handshake
	empty    chan struct{} // closed when no connection is left
	abort    func()        // closes them all
	once     sync.Once
	closed   chan struct{}
}

// newHold returns a hold that ends when empty is closed, as the connection that
// net/http is given. If net/http closes it earlier, as Close does, it calls abort.
func newHold(empty chan struct{}, abort func()) (net.Conn, error) {
	cert, err := holdCertificate()
	if err != nil {
		return nil, err
	}
	a, b := net.Pipe()
	h := &hold{Conn: a, empty: empty, abort: abort, closed: make(chan struct{})}
	go func() {
		// The peer of the handshake. It ends when the hold is closed.
		c := tls.Client(b, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protoTLS}})
		if c.Handshake() == nil {
			c.Read(make([]byte, 1))
		}
		b.Close()
	}()
	c := tls.Server(h, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{protoTLS}})
	if err := c.Handshake(); err != nil { // here, since net/http would log that Close ends it
		a.Close()
		return nil, err
	}
	return c, nil
}

// isHold reports whether c is a hold, for which users' hooks are not called.
func isHold(c net.Conn) bool {
	if t, ok := c.(*tls.Conn); ok {
		_, ok = t.NetConn().(*hold)
		return ok
	}
	return false
}

// wait waits until no connection is left, or net/http closes the hold.
func (h *hold) wait() {
	select {
	case <-h.empty:
	case <-h.closed:
	}
}

// Close ends the hold.
func (h *hold) Close() error {
	h.once.Do(func() {
		close(h.closed)
		select {
		case <-h.empty:
		default:
			h.abort()
		}
	})
	return h.Conn.Close()
}

// holdCertificate makes a certificate for the handshake between the two ends of a hold.
func holdCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
