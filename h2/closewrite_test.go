package h2

import (
	"crypto/tls"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/testcert"
	"github.com/tarn-go/tarn/tarntest"
)

// endings is a TCP connection that notes how its owner ends it.
type endings struct {
	*net.TCPConn
	mu   sync.Mutex
	list []string
}

func (e *endings) note(what string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, what)
}

func (e *endings) CloseWrite() error { e.note("CloseWrite"); return e.TCPConn.CloseWrite() }

func (e *endings) Close() error { e.note("Close"); return e.TCPConn.Close() }

// TestShutdownOverTLSSendsFIN: a TLS connection that ends in order shuts the writing half of the connection below, too. Some peers
// close on that, and not on TLS's close_notify (Netty's SslHandler), so that the connection would stay for closeTimeout.
func TestShutdownOverTLSSendsFIN(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialed, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	below, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer below.Close()
	below.SetDeadline(time.Now().Add(time.Minute))
	cert, _ := testcert.New(t)
	peer := tls.Server(below, &tls.Config{Certificates: []tls.Certificate{cert}})
	e := &endings{TCPConn: dialed.(*net.TCPConn)}
	c, err := NewClient(tls.Client(e, &tls.Config{InsecureSkipVerify: true}), newRecorder(t), Config{Pool: tarntest.NewPool(t)})
	if err != nil {
		t.Fatal(err)
	}
	run := make(chan struct{})
	go func() { defer close(run); c.Run() }()
	if _, err := io.ReadFull(peer, make([]byte, len(Preface))); err != nil {
		t.Fatal(err)
	}
	newRaw(t, peer).fr.WriteSettings()
	c.Shutdown("")
	if _, err := io.Copy(io.Discard, peer); err != nil { // until close_notify
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, below); err != nil { // until FIN
		t.Fatal(err)
	}
	below.Close()
	<-run
	e.mu.Lock()
	defer e.mu.Unlock()
	if want := []string{"CloseWrite", "Close"}; !slices.Equal(e.list, want) {
		t.Errorf("the connection below is ended by %v, not %v", e.list, want)
	}
}
