package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/internal/cputime"
)

// uploadSize is the length of an upload in bytes.
const uploadSize = 64 << 20

// upload is one contestant: a client, and a server that reads what it is sent.
type upload struct {
	name string
	kind Kind
	rt   http.RoundTripper
	url  string
}

// uploads compares how fast one request's body is sent from a client to a server of the same implementation.
// A round-trip time above zero is made by a relay, which delays the data that it forwards.
func (s *session) uploads(ctx context.Context, rtt time.Duration) (Case, error) {
	title := fmt.Sprintf("Upload of %s in one request", sizeName(uploadSize))
	note := "Processor time of client and server."
	if rtt > 0 {
		title += fmt.Sprintf(", round trip %v", rtt)
		note = fmt.Sprintf("A relay in a process of its own delays each direction by half the round trip and holds at most %s, what a Linux socket sends unacknowledged by default. Processor time of client and server.", sizeName(relayHolds))
	}
	c := Case{Title: title, Note: note, Metrics: []Metric{{"rate", "bytes/s", Bytes, Higher}, {"cpu", "processor time", Nanoseconds, Lower}}}
	var all []upload
	for _, m := range []struct {
		name  string
		kind  Kind
		serve func(*http.Server, net.Listener, security) error
		rt    interface {
			http.RoundTripper
			CloseIdleConnections()
		}
	}{
		{"net/http, HTTP/1.1", Peer, serveNetHTTP, new(http.Transport)},
		{"net/http, HTTP/2", Peer, serveNetHTTP, unencryptedTransport()},
		{"tarn", Tarn, serveH2HTTP, new(h2http.Transport)},
	} {
		srv, err := startHTTP2(m.serve, unencrypted, http.HandlerFunc(takeUpload))
		if err != nil {
			return c, err
		}
		defer srv.Close()
		defer m.rt.CloseIdleConnections()
		url := srv.url
		if rtt > 0 {
			r, err := startRelay(srv.addr, rtt/2)
			if err != nil {
				return c, err
			}
			defer r.Close()
			url = "http://" + r.Addr
		}
		all = append(all, upload{m.name, m.kind, m.rt, url})
	}
	rates, used := make([][]float64, len(all)), make([][]float64, len(all))
	for round := range s.uploadRounds + 1 {
		for _, i := range inTurn(round, len(all)) {
			u := all[i]
			s.progress.step("%s: %s (%d of %d)", title, u.name, round, s.uploadRounds)
			start, before := time.Now(), cputime.Used()
			if err := u.send(ctx); err != nil {
				return c, fmt.Errorf("upload: %s: %w", u.name, err)
			}
			if round == 0 {
				continue // warming up
			}
			rates[i] = append(rates[i], uploadSize/time.Since(start).Seconds())
			used[i] = append(used[i], float64(cputime.Used()-before))
		}
	}
	for i, u := range all {
		c.Rows = append(c.Rows, Row{Name: u.name, Kind: u.kind, Turns: rates[i], Values: map[string]float64{"rate": median(rates[i]), "cpu": median(used[i])}})
	}
	c.compare()
	return c, nil
}

func unencryptedTransport() *http.Transport {
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	return tr
}

// takeUpload reads a request's body and refuses one of another length.
func takeUpload(w http.ResponseWriter, r *http.Request) {
	if n, err := io.Copy(io.Discard, r.Body); n != uploadSize || err != nil {
		http.Error(w, fmt.Sprintf("%d bytes: %v", n, err), http.StatusBadRequest)
	}
}

// nothing is a Reader that leaves the caller's bytes as they are, so that reading takes no time.
type nothing struct{}

func (nothing) Read(p []byte) (int, error) { return len(p), nil }

func (u *upload) send(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.url, io.LimitReader(nothing{}, uploadSize))
	if err != nil {
		return err
	}
	req.ContentLength = uploadSize
	resp, err := u.rt.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if answer, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s %w", resp.Status, answer, err)
	}
	return nil
}
