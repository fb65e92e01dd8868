//go:build linux

package addc

import (
	"context"
	"net"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// Gone is a controller that DNS lists before the running one and that does not answer.
const Gone = "gone." + DNSName

// Resolver queries a DNS server that the test runs, with the records of an Active Directory domain: its
// controllers, of which Gone comes first, its KDC, and the address of each.
func (d *Domain) Resolver(t testing.TB) *net.Resolver {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.answer(server)
	}()
	t.Cleanup(func() { server.Close(); <-done })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}

func (d *Domain) answer(server net.PacketConn) {
	buf := make([]byte, 1500)
	for {
		n, from, err := server.ReadFrom(buf)
		if err != nil {
			return
		}
		var query dnsmessage.Message
		if query.Unpack(buf[:n]) != nil || len(query.Questions) != 1 {
			continue
		}
		if reply, err := d.reply(query).Pack(); err == nil {
			server.WriteTo(reply, from)
		}
	}
}

func (d *Domain) reply(query dnsmessage.Message) *dnsmessage.Message {
	q := query.Questions[0]
	r := &dnsmessage.Message{
		Header:    dnsmessage.Header{ID: query.ID, Response: true, RecursionAvailable: true},
		Questions: query.Questions,
	}
	add := func(body dnsmessage.ResourceBody) {
		r.Answers = append(r.Answers, dnsmessage.Resource{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: 60}, Body: body,
		})
	}
	service := func(priority uint16, host string, port int) {
		add(&dnsmessage.SRVResource{Priority: priority, Port: uint16(port), Target: dnsmessage.MustNewName(host + ".")})
	}
	name := strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))
	switch {
	case name == HostName:
		if q.Type == dnsmessage.TypeA {
			add(&dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}})
		}
	case q.Type == dnsmessage.TypeSRV && name == "_ldap._tcp.dc._msdcs."+DNSName:
		service(0, Gone, 389)
		service(10, HostName, 389)
	case q.Type == dnsmessage.TypeSRV && (name == "_kerberos._tcp."+DNSName || name == "_kerberos._udp."+DNSName):
		service(0, HostName, d.kdc)
	default:
		r.RCode = dnsmessage.RCodeNameError
	}
	return r
}
