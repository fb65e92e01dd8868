package top

import (
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/tarn-go/tarn/debug"
	"github.com/tarn-go/tarn/debug/endpoint"
)

// nas is a snapshot of a service with two SMB sessions and an endpoint of another kind.
func nas(at time.Time, received uint64) *debug.Snapshot {
	return &debug.Snapshot{Program: "svc", Time: at, Endpoints: []endpoint.State{
		{Kind: "HTTP server", Name: "HTTP server :80", Conns: 7},
		{Kind: "SMB session", Name: "SMB session nas:445\x1b[2J", Conns: 1, Session: &endpoint.Session{
			Server: "nas:445", Servers: []string{"nas:445"}, Dialect: "3.1.1", Protection: "encrypted with AES-128-GCM", Age: 90 * time.Second,
			InFlight: 17, Credits: 480, Waiting: 2, Received: received, Sent: 3 << 30, Reconnects: 1}},
		{Kind: "SMB session", Name: "SMB session old:445", Session: &endpoint.Session{Server: "old:445", Servers: []string{"old:445"}, Closed: true}},
	}}
}

func TestSessions(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	text := draw(view{now: nas(start, 5<<20), width: 200})
	for _, want := range []string{
		"SMB session nas:445", "connected for 1m30s; dialect 3.1.1, protection: encrypted with AES-128-GCM; 1 reconnection\n",
		"17 requests in flight, 480 credits free, 2 calls waiting for credits; received 5 MiB, sent 3 GiB\n",
		"SMB session old:445 closed; 0 reconnections\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "HTTP server") || strings.ContainsRune(text, '\x1b') {
		t.Errorf("too much:\n%s", text)
	}
	text = draw(view{before: nas(start, 5<<20), now: nas(start.Add(2*time.Second), 7<<20), width: 200})
	if want := "received 7 MiB (1 MiB/s), sent 3 GiB (0 B/s)\n"; !strings.Contains(text, want) {
		t.Errorf("no %q in\n%s", want, text)
	}
	for _, width := range []int{narrowest, 40, 80} {
		for line := range strings.Lines(draw(view{now: nas(start, 5<<20), width: width})) {
			if n := lipgloss.Width(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%d columns: a line has %d: %s", width, n, line)
			}
		}
	}
}
