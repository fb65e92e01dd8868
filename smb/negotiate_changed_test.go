package smb_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// way is the direction of a message.
type way uint8

const (
	toServer way = iota
	toClient
)

func (w way) String() string { return [...]string{"to the server", "to the client"}[w] }

// attacker changes messages between a client and a scripted server. It gets the n-th message of each direction,
// behind its length, and whether the message is a NEGOTIATE.
type attacker func(w way, n int, msg []byte)

// attackedConn is the client's connection.
type attackedConn struct {
	net.Conn
	change attacker
	sent   int
}

func (c *attackedConn) Write(p []byte) (int, error) {
	q := bytes.Clone(p)
	c.change(toServer, c.sent, q[4:])
	c.sent++
	return c.Conn.Write(q)
}

// setUpAttacked dials s through the attacker, logs in with NTLM and mounts the share.
func setUpAttacked(t *testing.T, pool *tarn.Pool, s *script.Server, change attacker) error {
	t.Helper()
	s.Account = &script.Account{User: "user", Password: "password"}
	received := 0
	s.Mangle = func(frame []byte) []byte {
		change(toClient, received, frame[4:])
		received++
		return frame
	}
	d := smb.Dialer{
		Initiator: smb.NTLM{User: "user", Password: "password"}, Pool: pool, NoReconnect: true, Limits: smb.Limits{KeepAlive: -1},
		DialFunc: func(ctx context.Context, n, a string) (net.Conn, error) {
			nc, err := through(t, s.Dial)(ctx, n, a)
			return &attackedConn{Conn: nc, change: change}, err
		},
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	sess, err := d.Dial(ctx, "scripted")
	if err != nil {
		return err
	}
	defer sess.Close()
	_, err = sess.Mount(ctx, "share")
	return err
}

// TestChangedSetUp changes one bit of one message until the session is set up, NEGOTIATE and SESSION_SETUP in both
// directions: with 3.1.1 no such session is used. With TARN_LONG=1 it changes each byte.
func TestChangedSetUp(t *testing.T) {
	const messages = 3 // of each direction: NEGOTIATE, and two of SESSION_SETUP
	for _, kind := range kinds() {
		t.Run(kind, func(t *testing.T) {
			pool := newPool(t)
			var length [2][messages]int
			must(t, setUpAttacked(t, pool, protections()[kind], func(w way, n int, msg []byte) {
				if n < messages {
					length[w][n] = len(msg)
				}
			}))
			for w := range length {
				for n, size := range length[w] {
					step := 17
					if n == 0 {
						step = 7
					}
					if os.Getenv("TARN_LONG") != "" {
						step = 1
					}
					for at := n; at < size; at += step {
						err := setUpAttacked(t, pool, protections()[kind], func(w2 way, n2 int, msg []byte) {
							if w2 == way(w) && n2 == n {
								msg[at] ^= 1
							}
						})
						if err == nil || errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("message %d %v, byte %d: %v", n, way(w), at, err)
						}
					}
				}
			}
		})
	}
}

// TestDowngraded changes NEGOTIATE so that a session would be weaker than both sides want: none is used. Below 3.1.1
// VALIDATE_NEGOTIATE_INFO detects the change, by the client's comparison or by the server's, which closes the
// connection.
func TestDowngraded(t *testing.T) {
	reply := func(change func(body []byte)) attacker {
		return func(w way, n int, msg []byte) {
			if w == toClient && n == 0 {
				change(msg[proto.HeaderSize:])
			}
		}
	}
	request := func(change func(body []byte)) attacker {
		return func(w way, n int, msg []byte) {
			if w == toServer && n == 0 {
				change(msg[proto.HeaderSize:])
			}
		}
	}
	// alsoUnsigned removes the signature of the replies that end the set-up, which the client could not verify
	// with the keys of another dialect.
	alsoUnsigned := func(a attacker) attacker {
		return func(w way, n int, msg []byte) {
			a(w, n, msg)
			if w == toClient && n > 0 && proto.Command(le.Uint16(msg[proto.OffsetCommand:])) != proto.CommandIoctl {
				flags := le.Uint32(msg[proto.OffsetFlags:])
				le.PutUint32(msg[proto.OffsetFlags:], flags&^uint32(proto.FlagSigned))
			}
		}
	}
	dialect := func(d proto.Dialect) attacker {
		return reply(func(b []byte) { le.PutUint16(b[4:], uint16(d)) })
	}
	withoutCapabilities := reply(func(b []byte) { le.PutUint32(b[24:], 0) })
	notRequired := reply(func(b []byte) { le.PutUint16(b[2:], uint16(proto.SigningEnabled)) })
	for name, c := range map[string]struct {
		s      script.Server
		change attacker
		// byServer says that the server may detect the change, and close the connection.
		byServer bool
	}{
		"3.1.1 to 3.0.2":                  {script.Server{}, dialect(proto.Dialect302), false},
		"3.1.1 to 3.0.2, unsigned":        {script.Server{}, alsoUnsigned(dialect(proto.Dialect302)), false},
		"3.1.1 to 2.1, unsigned":          {script.Server{}, alsoUnsigned(dialect(proto.Dialect210)), false},
		"3.1.1 to 2.0.2, unsigned":        {script.Server{}, alsoUnsigned(dialect(proto.Dialect202)), false},
		"3.1.1 without capabilities":      {script.Server{Cipher: proto.CipherAES128GCM}, withoutCapabilities, false},
		"3.1.1 without required signing":  {script.Server{Signed: true}, notRequired, false},
		"3.1.1, the same, unsigned":       {script.Server{Signed: true}, alsoUnsigned(notRequired), false},
		"3.1.1 without contexts":          {script.Server{Cipher: proto.CipherAES128GCM}, reply(func(b []byte) { le.PutUint16(b[6:], 1) }), false},
		"3.0.2 to 2.1":                    {script.Server{Dialect: proto.Dialect302}, dialect(proto.Dialect210), false},
		"3.0.2 to 2.1, unsigned":          {script.Server{Dialect: proto.Dialect302}, alsoUnsigned(dialect(proto.Dialect210)), false},
		"3.0.2 to 3.0":                    {script.Server{Dialect: proto.Dialect302}, dialect(proto.Dialect300), false},
		"3.0.2 without capabilities":      {script.Server{Dialect: proto.Dialect302, Cipher: proto.CipherAES128CCM}, withoutCapabilities, false},
		"3.0.2 without required signing":  {script.Server{Dialect: proto.Dialect302, Signed: true}, notRequired, false},
		"3.0.2 of another server":         {script.Server{Dialect: proto.Dialect302}, reply(func(b []byte) { b[8] ^= 1 }), false},
		"2.1 without required signing":    {script.Server{Dialect: proto.Dialect210, Signed: true}, notRequired, false},
		"3.0.2, 3.1.1 was offered":        {script.Server{Dialect: proto.Dialect302}, request(func(b []byte) { le.PutUint16(b[36+2*4:], uint16(proto.Dialect302)) }), true},
		"2.1, 3.0 was offered":            {script.Server{Dialect: proto.Dialect210}, request(func(b []byte) { le.PutUint16(b[2:], 2) }), true},
		"3.0.2, encryption was offered":   {script.Server{Dialect: proto.Dialect302}, request(func(b []byte) { le.PutUint32(b[8:], 0) }), true},
		"3.0.2, signing was required":     {script.Server{Dialect: proto.Dialect302}, request(func(b []byte) { le.PutUint16(b[4:], 0) }), true},
		"3.0.2, asked by another client":  {script.Server{Dialect: proto.Dialect302}, request(func(b []byte) { b[12] ^= 1 }), true},
		"3.1.1, other algorithms offered": {script.Server{}, request(func(b []byte) { b[len(b)-1] ^= 1 }), true},
	} {
		t.Run(name, func(t *testing.T) {
			err := setUpAttacked(t, newPool(t), &c.s, c.change)
			if !errors.Is(err, smb.ErrSecurity) && !(c.byServer && errors.Is(err, smb.ErrConnLost)) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestForgedValidation answers VALIDATE_NEGOTIATE_INFO in the server's place, without its key: the session is not used.
func TestForgedValidation(t *testing.T) {
	for name, forge := range map[string]func(c *script.Conn, m *script.Message){
		"unsigned":          func(c *script.Conn, m *script.Message) { c.S.Override = inClear; c.Obey(m) },
		"not supported":     func(c *script.Conn, m *script.Message) { c.S.Override = inClear; c.Refuse(m, proto.StatusNotSupported) },
		"signed by another": func(c *script.Conn, m *script.Message) { c.S.Mangle = spoilSignature; c.Obey(m) },
		// Servers of 3.0 and later must support it.
		"not supported, signed": func(c *script.Conn, m *script.Message) { c.Refuse(m, proto.StatusNotSupported) },
	} {
		t.Run(name, func(t *testing.T) {
			s := &script.Server{Dialect: proto.Dialect302}
			s.Hook = func(c *script.Conn, m *script.Message) bool {
				if m.Command != proto.CommandIoctl {
					return false
				}
				forge(c, m)
				return true
			}
			if _, err := scripted(t, s, smb.Dialer{NoReconnect: true}); !errors.Is(err, smb.ErrSecurity) {
				t.Errorf("the session was used: %v", err)
			}
		})
	}
}

func inClear(proto.Command) (script.Security, bool) { return script.InClear, true }

// spoilSignature changes one bit of a message's signature.
func spoilSignature(frame []byte) []byte {
	frame[4+proto.HeaderSize-1] ^= 1
	return frame
}
