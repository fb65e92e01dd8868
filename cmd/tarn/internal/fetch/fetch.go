// Package fetch reads what a service with the debug handler serves, for the commands top, tune and doctor.
package fetch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tarn-go/tarn/debug"
)

// Bounds on one answer: the address may be that of any server.
const (
	maxBody = 64 << 20
	timeout = 10 * time.Second
)

// Errors of this package, to be matched with errors.Is.
var (
	// ErrURL: the address is not an http or https URL.
	ErrURL = errors.New("not an http or https address")
	// ErrAnswer: the answer is not what is served there.
	ErrAnswer = errors.New("not the expected answer")
)

// IsURL reports whether s is an address and not the name of a file.
func IsURL(s string) bool {
	return strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://")
}

// Snapshot asks for one of the handler's JSON formats, with header in the request. The address is that
// of the page; its query is kept but for the format.
func Snapshot(ctx context.Context, address, format string, header http.Header) (*debug.Snapshot, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || !IsURL(address) {
		return nil, fmt.Errorf("%s: %w", address, ErrURL)
	}
	u.Path = strings.TrimSuffix(u.Path, "/json")
	query := u.Query()
	query.Set("format", format)
	u.RawQuery = query.Encode()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	data, err := Get(ctx, u.String(), header)
	if errors.Is(err, ErrAnswer) {
		return nil, fmt.Errorf("%w; give the address of a debug page", err)
	}
	if err != nil {
		return nil, err
	}
	return Decode(data)
}

// Decode reads a snapshot.
func Decode(data []byte) (*debug.Snapshot, error) {
	var s debug.Snapshot
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("%w of a debug handler: %v", ErrAnswer, err)
	}
	if s.Time.IsZero() || s.Pools == nil {
		return nil, fmt.Errorf("%w of a debug handler: it has no pools", ErrAnswer)
	}
	return &s, nil
}

// Get returns what is served at address, at most 64 MiB. ctx alone bounds the time.
func Get(ctx context.Context, address string, header http.Header) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, ErrURL)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	req.Host = header.Get("Host") // net/http does not send the one among the headers
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body := &io.LimitedReader{R: resp.Body, N: maxBody + 1}
	data, err := io.ReadAll(body)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", address, err)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: %w: status %s", address, ErrAnswer, resp.Status)
	case body.N <= 0:
		return nil, fmt.Errorf("%s: %w: more than %d bytes", address, ErrAnswer, maxBody)
	}
	return data, nil
}

// Clean replaces control characters in a service's text: they would move a terminal's cursor.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '\uFFFD'
		}
		return r
	}, s)
}
