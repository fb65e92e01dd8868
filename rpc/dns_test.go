package rpc_test

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"golang.org/x/net/dns/dnsmessage"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// startDNS answers every A question with 127.0.0.1 and the TXT question for name with
// txt, until the test ends.
func startDNS(t *testing.T, name, txt string) string {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			if answer, err := answerDNS(buf[:n], name, txt); err != nil {
				t.Error(err)
			} else if _, err := pc.WriteTo(answer, from); err != nil && !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		}
	}()
	t.Cleanup(func() {
		pc.Close()
		<-done
	})
	return pc.LocalAddr().String()
}

func answerDNS(question []byte, name, txt string) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(question); err != nil {
		return nil, err
	}
	q := m.Questions[0]
	m.Response, m.Authoritative, m.Additionals = true, true, nil
	h := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 60}
	switch {
	case q.Type == dnsmessage.TypeA:
		m.Answers = []dnsmessage.Resource{{Header: h, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}}}
	case q.Type == dnsmessage.TypeTXT && q.Name.String() == name:
		m.Answers = []dnsmessage.Resource{{Header: h, Body: &dnsmessage.TXTResource{TXT: pieces(txt)}}}
	case q.Type == dnsmessage.TypeTXT:
		m.RCode = dnsmessage.RCodeNameError
	}
	return m.Pack()
}

// pieces cuts a text into strings that a TXT record can hold.
func pieces(s string) (out []string) {
	for len(s) > 255 {
		out, s = append(out, s[:255]), s[255:]
	}
	return append(out, s)
}

// The TXT record of a dns target's name sets a limit, unless service configs of the resolver are disabled.
func TestDNSServiceConfig(t *testing.T) {
	_, addr := startTarn(t, &testService{})
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	dns := startDNS(t, "_grpc_config.svc.test.", `grpc_config=[{"clientLanguage":["c++"],"serviceConfig":{}},`+
		`{"serviceConfig":{"loadBalancingConfig":[{"round_robin":{}}],"methodConfig":[{"name":[{"service":"grpc.testing.TestService"}],"maxRequestMessageBytes":100}]}}]`+strings.Repeat(" ", 200))
	for _, c := range []struct {
		name string
		opts []rpc.DialOption
		want codes.Code
	}{
		{"used", nil, codes.ResourceExhausted},
		{"disabled", []rpc.DialOption{rpc.WithDisableServiceConfig()}, codes.OK},
	} {
		t.Run(c.name, func(t *testing.T) {
			cc := dialTarn(t, "dns://"+dns+"/svc.test:"+port, c.opts...)
			_, err := pb.NewTestServiceClient(cc).UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(1000)})
			wantCode(t, err, c.want)
		})
	}
}
