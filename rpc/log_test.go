package rpc_test

import (
	"errors"
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/tarn-go/tarn/internal/testcert"
	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
)

// TestLog: with the level that GRPC_GO_LOG_SEVERITY_LEVEL names, grpclog has what becomes of names and connections, at grpc-go's levels.
func TestLog(t *testing.T) {
	const child = "TARN_LOG"
	if os.Getenv(child) != "" {
		logSomething(t)
		return
	}
	infos := []string{
		`client of names:///good: Resolver state updated: 1 endpoints`,
		`client of names:///good: Channel switches to new LB policy "pick_first"`,
		`client of names:///good: CONNECTING`,
		`client of names:///good: READY`,
		`client of names:///good, 127.0.0.1:\d+: CONNECTING`,
		`client of names:///good, 127.0.0.1:\d+: READY`,
		`server: the connection from 127.0.0.1:`,
		`client of names:///good: SHUTDOWN`,
	}
	warnings := []string{
		`client of names:///good: Resolver reported an error: no names`,
		`client of names:///good: Resolver returned a service config that cannot be used: `,
		`client of names:///bad: connecting to 127.0.0.1:`,
		`certificate signed by unknown authority`,
	}
	for level, want := range map[string]map[string][]string{
		"info":    {"INFO: [rpc] ": infos, "WARNING: [rpc] ": warnings},
		"warning": {"WARNING: [rpc] ": warnings},
		"error":   nil,
	} {
		t.Run(level, func(t *testing.T) {
			out := runChild(t, "TestLog", child+"=1", "GRPC_GO_LOG_SEVERITY_LEVEL="+level)
			for severity, texts := range want {
				for _, text := range texts {
					if !hasLine(out, severity, text) {
						t.Errorf("no line %q has %q:\n%s", severity, text, out)
					}
				}
			}
			for _, severity := range []string{"INFO: [rpc]", "WARNING: [rpc]"} {
				if want[severity+" "] == nil && strings.Contains(out, severity) {
					t.Errorf("the log has %s:\n%s", severity, out)
				}
			}
		})
	}
}

// hasLine reports whether a line of that severity matches text, a regular expression.
func hasLine(out, severity, text string) bool {
	re := regexp.MustCompile(text)
	for line := range strings.Lines(out) {
		if _, after, ok := strings.Cut(line, severity); ok && re.MatchString(after) {
			return true
		}
	}
	return false
}

// logSomething connects a client, one that does not trust the server, and one without TLS, which the server disconnects.
func logSomething(t *testing.T) {
	cert, roots := testcert.New(t)
	_, addr := startTarn(t, &testService{}, rpc.Creds(credentials.NewServerTLSFromCert(&cert)))
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := io.WriteString(nc, "no handshake\r\n"); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, nc) // until the server closes it
	for name, creds := range map[string]credentials.TransportCredentials{
		"good": credentials.NewClientTLSFromCert(roots, testcert.Name),
		"bad":  credentials.NewClientTLSFromCert(nil, testcert.Name),
	} {
		r := manual.NewBuilderWithScheme("names")
		r.InitialState(resolver.State{Endpoints: []resolver.Endpoint{{Addresses: []resolver.Address{{Addr: addr}}}}})
		cc := dialTarn(t, "names:///"+name, rpc.WithResolvers(r), rpc.WithTransportCredentials(creds))
		_, err := pb.NewTestServiceClient(cc).EmptyCall(ctxFor(t), &pb.Empty{})
		if name == "bad" {
			wantCode(t, err, codes.Unavailable)
			continue
		}
		wantCode(t, err, codes.OK)
		r.CC().ReportError(errors.New("no names"))
		s := resolver.State{ServiceConfig: r.CC().ParseServiceConfig(`{"loadBalancingConfig":7}`)}
		if err := r.CC().UpdateState(s); err == nil {
			t.Error("an unusable service config is accepted")
		}
		cc.Close()
		waitState(t, cc, connectivity.Shutdown)
	}
}

// TestFirstMessagesOfTheLog: several goroutines may write the first message at the same time. grpclog keeps its components in a map without
// a lock, which the race detector sees.
func TestFirstMessagesOfTheLog(t *testing.T) {
	const child = "TARN_FIRST_MESSAGES"
	if os.Getenv(child) == "" {
		runChild(t, t.Name(), child+"=1", "GRPC_BINARY_LOG_FILTER=*")
		return
	}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() { rpc.NewServer().Stop() })
	}
	wg.Wait()
}
