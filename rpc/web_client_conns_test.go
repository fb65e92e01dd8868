package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/internal/testcert"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

// TestSelectsAnotherVersion: the connection that a dial has made for HTTP/2, and for which the server has selected HTTP/1.1, is not used for
// HTTP/2, and following calls use HTTP/1.1.
func TestSelectsAnotherVersion(t *testing.T) {
	cert, roots := testcert.New(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			sc := tls.Server(nc, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}})
			go func() {
				defer sc.Close()
				_, _ = sc.Read(make([]byte, 1)) // the handshake, and the client's Close
			}()
		}
	}()
	cc, err := NewClient(l.Addr().String(), WithProtocol(Connect), WithTransportCredentials(credentials.NewTLS(
		&tls.Config{RootCAs: roots, ServerName: testcert.Name, NextProtos: []string{"h2", "http/1.1"}})))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	conns := cc.web.conns
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for range 2 {
		if nc, err := conns.dial(http2)(ctx, "", ""); !errors.Is(err, errVersion) {
			t.Errorf("for HTTP/2: %v, %v", nc, err)
		}
		if v := conns.version.Load(); v != http1 {
			t.Errorf("following calls use HTTP/%d", v)
		}
	}
	if open := len(conns.open); open != 0 {
		t.Errorf("%d connections are open", open)
	}
	if _, err := conns.dial(http1)(ctx, "", ""); err != nil {
		t.Errorf("for HTTP/1.1: %v", err)
	}
}

// TestUnusedSpare: a connection that was made to determine the version, and whose call ended without a request, is closed: a server may
// end it later, and a new connection's first request is not repeated.
func TestUnusedSpare(t *testing.T) {
	cert, roots := testcert.New(t)
	for _, c := range []struct {
		name string
		want codes.Code
		call func(ctx context.Context, c pb.TestServiceClient) error
	}{
		{"cancelled after the handshake", codes.Canceled, func(ctx context.Context, c pb.TestServiceClient) error {
			_, err := c.EmptyCall(ctx, &pb.Empty{})
			return err
		}},
		{"a stream that needs HTTP/2", codes.Unimplemented, func(_ context.Context, c pb.TestServiceClient) error {
			s, err := c.FullDuplexCall(context.Background())
			if err == nil {
				_, err = s.Recv()
			}
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := NewServer(Pool(tarntest.NewPool(t)))
			pb.RegisterTestServiceServer(s, pb.UnimplementedTestServiceServer{})
			h := httptest.NewUnstartedServer(s)
			spare := make(chan net.Conn, 1)
			h.Config.ConnState = func(nc net.Conn, state http.ConnState) {
				if state == http.StateNew {
					select {
					case spare <- nc:
					default: // a later connection
					}
				}
			}
			h.Config.ErrorLog = log.New(io.Discard, "", 0)
			h.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}}
			h.StartTLS()
			defer h.Close()
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			creds := credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: testcert.Name, NextProtos: []string{"h2", "http/1.1"}})
			cc, err := NewClient(h.Listener.Addr().String(), WithPool(tarntest.NewPool(t)), WithProtocol(Connect), WithTransportCredentials(&thenCancel{creds, cancel}))
			if err != nil {
				t.Fatal(err)
			}
			defer cc.Close()
			client := pb.NewTestServiceClient(cc)
			if err := c.call(ctx, client); status.Code(err) != c.want {
				t.Fatalf("the first call: %v", err)
			}
			(<-spare).Close()
			if _, err := client.EmptyCall(context.Background(), &pb.Empty{}); status.Code(err) != codes.Unimplemented {
				t.Errorf("the next call: %v", err)
			}
		})
	}
}

// thenCancel are credentials that cancel a context after each handshake.
type thenCancel struct {
	credentials.TransportCredentials
	cancel context.CancelFunc
}

func (c *thenCancel) ClientHandshake(ctx context.Context, name string, nc net.Conn) (net.Conn, credentials.AuthInfo, error) {
	defer c.cancel()
	return c.TransportCredentials.ClientHandshake(ctx, name, nc)
}

func (c *thenCancel) Clone() credentials.TransportCredentials { return c }

// TestDialerThatIgnoresItsContext: a call of another protocol ends with its context, and with Close of the client, while a dialer runs
// that ignores its own.
func TestDialerThatIgnoresItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := make(chan struct{})
		defer close(never)
		cc, err := NewClient("passthrough:///x", WithProtocol(Connect), WithTransportCredentials(credentials.NewTLS(&tls.Config{})),
			WithContextDialer(func(context.Context, string) (net.Conn, error) {
				<-never
				return nil, errors.New("too late")
			}))
		if err != nil {
			t.Fatal(err)
		}
		c := pb.NewTestServiceClient(cc)
		call := func(ctx context.Context) <-chan error {
			ended := make(chan error, 1)
			go func() {
				_, err := c.EmptyCall(ctx, &pb.Empty{})
				ended <- err
			}()
			return ended
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		first, second := call(ctx), call(t.Context())
		<-time.After(2 * time.Second)
		synctest.Wait()
		select {
		case err := <-first:
			if status.Code(err) != codes.DeadlineExceeded {
				t.Error(err)
			}
		default:
			t.Error("the call's deadline has passed, and it waits for the dialer")
		}
		closed := make(chan struct{})
		go func() { cc.Close(); close(closed) }()
		synctest.Wait()
		select {
		case <-closed:
			if err := <-second; status.Code(err) != codes.Canceled {
				t.Error(err)
			}
		default:
			t.Error("Close waits for the dialer")
		}
	})
}
