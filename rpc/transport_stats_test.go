package rpc_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/rpc"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// logLines is a buffer for a logger.
type logLines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A GOAWAY with a reason ends a connection: calls fail with that reason, and the client counts and logs it.
func TestGoAwayIsReported(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		addr := rawServer(t, func(p *rawPeer, id uint32) {
			p.fr.WriteGoAway(id, http2.ErrCodeEnhanceYourCalm, []byte("slow down"))
			p.nc.(interface{ CloseWrite() error }).CloseWrite() // Close, with bytes unread, would reset the connection and lose the GOAWAY
		})
		var lines logLines
		cc := dialTarn(t, addr, rpc.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))), fastBackoff())
		_, err := pb.NewTestServiceClient(cc).EmptyCall(ctxFor(t), &pb.Empty{})
		wantCode(t, err, codes.Unavailable)
		for _, want := range []string{"ENHANCE_YOUR_CALM", "slow down"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q is not in the call's error: %v", want, err)
			}
		}
		cc.Close()
		if n := cc.TransportStats().GoAwaysReceived[h2.EnhanceYourCalm]; n != 1 {
			t.Errorf("%d GOAWAYs counted", n)
		}
		if text := lines.String(); !strings.Contains(text, "slow down") {
			t.Errorf("the log is %q", text)
		}
	})
}

// After a protocol error the server counts and logs why the connection ended.
func TestAttackIsReported(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		var lines logLines
		s, addr := startTarn(t, &testService{}, rpc.Logger(slog.New(slog.NewTextHandler(&lines, nil))))
		p := rawClient(t, addr)
		if err := p.fr.WriteData(1, true, nil); err != nil { // on an idle stream
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, p.nc); err != nil && t.Kind == faultnet.TCP { // TLS may lose its alert, and a wrapped connection may be reset
			t.Fatal(err)
		}
		s.Stop()
		st := s.TransportStats()
		if st.Conns != 0 || len(st.Ended) != 1 || st.GoAwaysSent[h2.ProtocolError] != 1 {
			t.Errorf("counted: %+v", st)
		}
		if text := lines.String(); !strings.Contains(text, "level=WARN") || !strings.Contains(text, "idle stream") {
			t.Errorf("the log is %q", text)
		}
	})
}

// TestTextOfALostConnection: the errors of calls whose connection is lost have grpc-go's text, which programs search for.
func TestTextOfALostConnection(t *testing.T) {
	for name, f := range map[string]func(p *rawPeer, id uint32){
		"no GOAWAY":        func(*rawPeer, uint32) {},
		"GOAWAY":           func(p *rawPeer, id uint32) { p.fr.WriteGoAway(id, http2.ErrCodeNo, nil) },
		"GOAWAY with why":  func(p *rawPeer, id uint32) { p.fr.WriteGoAway(id, http2.ErrCodeNo, []byte("max_age")) },
		"GOAWAY, an error": func(p *rawPeer, id uint32) { p.fr.WriteGoAway(id, http2.ErrCodeInternal, []byte("a \"reason\"")) },
	} {
		t.Run(name, func(t *testing.T) {
			addr := rawServer(t, func(p *rawPeer, id uint32) {
				p.fr.WriteSettingsAck()
				f(p, id)
				p.nc.(interface{ CloseWrite() error }).CloseWrite() // Close, with bytes unread, would reset the connection
			})
			text := func(cc grpc.ClientConnInterface) string {
				_, err := pb.NewTestServiceClient(cc).EmptyCall(ctxFor(t), &pb.Empty{})
				return fmt.Sprint(err)
			}
			if ours, theirs := text(dialTarn(t, addr)), text(dialGRPC(t, addr)); ours != theirs {
				t.Errorf("%s\ngrpc-go: %s", ours, theirs)
			}
		})
	}
}
