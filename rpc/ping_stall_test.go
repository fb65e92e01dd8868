package rpc_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"golang.org/x/net/http2"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/keepalive"
)

// deafClient is a client that reads nothing, and a call whose answers fill the socket, so that acknowledgements
// of its PINGs and SETTINGS wait.
type deafClient struct {
	server *rpc.Server
	pool   *tarn.Pool
	log    *logLines
	nc     net.Conn
	fr     *http2.Framer
	link   *faultnet.Link
	ended  chan struct{} // closed when the call's handler has returned
}

func newDeafClient(t *testing.T, kind faultnet.Kind, p keepalive.EnforcementPolicy) *deafClient {
	d := &deafClient{pool: tarntest.NewPool(t), log: new(logLines), ended: make(chan struct{})}
	d.server = rpc.NewServer(rpc.Pool(d.pool), rpc.WaitForHandlers(true), rpc.KeepaliveEnforcementPolicy(p),
		rpc.Logger(slog.New(slog.NewTextHandler(d.log, nil))))
	began := make(chan struct{})
	pb.RegisterTestServiceServer(d.server, &testService{duplex: func(st pb.TestService_FullDuplexCallServer) error {
		defer close(d.ended)
		var err error
		for i := 0; i < 30 && err == nil; i++ {
			if err = st.Send(&pb.StreamingOutputCallResponse{Payload: payload(100_000)}); i == 0 {
				close(began)
			}
		}
		return err
	}})
	n := newFaultyNet(kind)
	served := make(chan struct{})
	go func() { defer close(served); d.server.Serve(n) }()
	t.Cleanup(func() { d.server.Stop(); <-served })
	nc, err := n.dial(t)(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	d.nc = nc
	n.each(func(l *faultnet.Link) { d.link = l })
	if h, ok := nc.(interface{ Handshake() error }); ok {
		if err := h.Handshake(); err != nil {
			t.Fatal(err)
		}
	}
	d.link.ToClient.Stall()
	io.WriteString(nc, http2.ClientPreface)
	r := newRawPeer(t, nc)
	d.fr = r.fr
	d.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 16 << 20})
	d.fr.WriteWindowUpdate(0, 16<<20)
	r.open(false, ":path", "/grpc.testing.TestService/FullDuplexCall")
	<-began
	return d
}

// floods are frames whose acknowledgements wait, and what the server says of too many.
var floods = []struct {
	name   string
	policy keepalive.EnforcementPolicy
	send   func(*http2.Framer) error
	reason string
}{
	{"early PINGs", keepalive.EnforcementPolicy{}, sendPing, "too_many_pings"},
	{"PINGs that the policy permits", keepalive.EnforcementPolicy{MinTime: 1, PermitWithoutStream: true}, sendPing, "too many PINGs"},
	{"SETTINGS", keepalive.EnforcementPolicy{}, func(fr *http2.Framer) error { return fr.WriteSettings() }, "too many SETTINGS"},
}

func sendPing(fr *http2.Framer) error { return fr.WritePing(false, [8]byte{}) }

// floodBound is the most bytes of buffers that the server may have taken at any time. The answers that fill the
// socket are 3 MB; 0.2 to 2.8 MB were measured in 588 runs, with -race and without.
const floodBound = 4 << 20

// TestFloodsIntoAFullSocket sends PINGs and SETTINGS whose acknowledgements cannot leave. The connection ends, the
// server logs and counts why, and its buffers never exceed floodBound.
func TestFloodsIntoAFullSocket(t *testing.T) {
	t.Parallel()
	for _, kind := range []faultnet.Kind{faultnet.TCP, faultnet.TLS, faultnet.Wrapped, faultnet.Memory} {
		for _, f := range floods {
			t.Run(kind.String()+"/"+f.name, func(t *testing.T) {
				d := newDeafClient(t, kind, f.policy)
				go func() {
					for f.send(d.fr) == nil {
					}
				}()
				within(t, "the end of the connection", func() { <-d.ended })
				d.nc.Close()
				within(t, "Stop", d.server.Stop)
				st := d.server.TransportStats()
				if st.GoAwaysSent[h2.EnhanceYourCalm] != 1 || len(st.Ended) != 1 || st.Ended[f.reason] != 1 {
					t.Errorf("counted: %+v", st)
				}
				if text := d.log.String(); !strings.Contains(text, "level=WARN") || !strings.Contains(text, f.reason) || !strings.Contains(text, "ENHANCE_YOUR_CALM") {
					t.Errorf("the log is %q", text)
				}
				if most := d.pool.Stats().Peak; most > floodBound {
					t.Errorf("%d bytes of buffers", most)
				}
			})
		}
	}
}

// TestPingsWithinRightsIntoAFullSocket sends PINGs as often as the policy permits for ten minutes, in which nothing
// drains: the connection lives, and all are acknowledged then.
func TestPingsWithinRightsIntoAFullSocket(t *testing.T) {
	for _, kind := range []faultnet.Kind{faultnet.Memory, faultnet.MemoryTLS} {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const every, pings = 10 * time.Second, 60
				d := newDeafClient(t, kind, keepalive.EnforcementPolicy{MinTime: every})
				d.nc.SetDeadline(time.Time{})
				for range pings {
					if err := sendPing(d.fr); err != nil {
						t.Fatal(err)
					}
					<-time.After(every)
				}
				d.link.Resume()
				for acks := 0; acks < pings; {
					f, err := d.fr.ReadFrame()
					if err != nil {
						t.Fatal(acks, err)
					}
					switch f := f.(type) {
					case *http2.PingFrame:
						acks++
					case *http2.GoAwayFrame:
						t.Fatal(f)
					}
				}
				go io.Copy(io.Discard, d.nc)
				<-d.ended
				d.nc.Close()
			})
		})
	}
}
