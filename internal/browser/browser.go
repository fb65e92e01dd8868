// Package browser drives a headless Chromium over its debugging pipe, for tests that need a rendered page. It
// implements only the parts of the DevTools protocol that they use.
package browser

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// ErrMissing: no Chromium is installed.
var ErrMissing = errors.New("browser: no chromium found")

// Find returns the path of an installed Chromium, or ErrMissing.
func Find() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrMissing
}

// Browser is one running Chromium with a separate profile and one page. Its methods are safe for concurrent
// use, except Close, which is called when all others have returned.
type Browser struct {
	cmd       *exec.Cmd
	out       io.WriteCloser
	session   string
	temporary string

	mu      sync.Mutex
	next    int
	waiting map[int]chan reply
	broken  error
	onEvent func(method string, params json.RawMessage)
}

type reply struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

type message struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct{ Message string }
}

// Start runs Chromium with its profile in dir, which the caller removes after Close, and opens a page. Events
// of the page go to onEvent, on the goroutine that also reads the results of commands, so that onEvent must not call the
// Browser. The browser ends with ctx.
func Start(ctx context.Context, dir string, onEvent func(method string, params json.RawMessage)) (*Browser, error) {
	path, err := Find()
	if err != nil {
		return nil, err
	}
	toBrowser, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	in, fromBrowser, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, toBrowser.Close(), out.Close())
	}
	temporary, err := TemporaryDir()
	if err != nil {
		return nil, errors.Join(err, toBrowser.Close(), out.Close(), in.Close(), fromBrowser.Close())
	}
	cmd := exec.CommandContext(ctx, path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--force-color-profile=srgb",
		"--remote-debugging-pipe", "--user-data-dir="+dir, "about:blank")
	cmd.Env = append(os.Environ(), "TMPDIR="+temporary)
	// Its helper processes write to inherited pipes; waiting for the pipes' end waits for the helpers too, so
	// that the profile does not change after Close has returned.
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = discard{}, discard{}, 10*time.Second
	cmd.ExtraFiles = []*os.File{toBrowser, fromBrowser} // descriptors 3 and 4, as --remote-debugging-pipe requires
	b := &Browser{cmd: cmd, out: out, temporary: temporary, waiting: map[int]chan reply{}, onEvent: onEvent}
	err = cmd.Start()
	toBrowser.Close()
	fromBrowser.Close()
	if err != nil {
		return nil, errors.Join(err, in.Close(), out.Close(), os.RemoveAll(temporary))
	}
	go b.read(in)
	if err := b.attach(ctx); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// TemporaryDir makes a directory for Chromium's temporary files, which the caller sets as TMPDIR and removes: Chromium leaves a
// directory with a socket there. The path of a socket may have 107 bytes (unix(7)), of which Chromium's part and this directory's name take
// at most 76, so the directory is in /tmp where the usual one has a longer path.
func TemporaryDir() (string, error) {
	dir := os.TempDir()
	if len(dir) > longestTemporary {
		dir = "/tmp"
	}
	return os.MkdirTemp(dir, "chromium")
}

// longestTemporary is how many bytes the path of the directory for temporary files may have.
const longestTemporary = 107 - 76

// discard drops what the browser writes to its standard streams.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// attach opens a page and subscribes to its events.
func (b *Browser) attach(ctx context.Context) error {
	var target struct{ TargetID string }
	if err := b.Call(ctx, "Target.createTarget", map[string]any{"url": "about:blank"}, &target); err != nil {
		return err
	}
	var attached struct{ SessionID string }
	if err := b.Call(ctx, "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached); err != nil {
		return err
	}
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		if err := b.Call(ctx, domain+".enable", nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// Close asks the browser to end and waits until it has, or kills it when it does not respond. Then it removes the browser's
// temporary files.
func (b *Browser) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	b.session = "" // the command is for the browser, not for the page
	if b.Call(ctx, "Browser.close", nil, nil) != nil {
		b.cmd.Process.Kill()
	}
	b.cmd.Wait() // it was asked to end, so its exit status is not an error
	return errors.Join(b.out.Close(), os.RemoveAll(b.temporary))
}

// read reads messages, each ended by a zero byte.
func (b *Browser) read(in io.ReadCloser) {
	defer in.Close()
	r := bufio.NewReader(in)
	for {
		data, err := r.ReadBytes(0)
		if err != nil {
			b.fail(err)
			return
		}
		var m message
		if json.Unmarshal(data[:len(data)-1], &m) != nil {
			continue
		}
		if m.ID == 0 {
			if b.onEvent != nil {
				b.onEvent(m.Method, m.Params)
			}
			continue
		}
		b.mu.Lock()
		ch := b.waiting[m.ID]
		delete(b.waiting, m.ID)
		b.mu.Unlock()
		if ch != nil {
			ch <- reply{m.Result, m.Error}
		}
	}
}

func (b *Browser) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken = fmt.Errorf("browser: it has ended: %w", err)
	for id, ch := range b.waiting {
		close(ch)
		delete(b.waiting, id)
	}
}

// Call sends one command of the DevTools protocol and decodes its result, unless result is nil.
func (b *Browser) Call(ctx context.Context, method string, params, result any) error {
	ch := make(chan reply, 1)
	b.mu.Lock()
	if b.broken != nil {
		b.mu.Unlock()
		return b.broken
	}
	b.next++
	request := map[string]any{"id": b.next, "method": method}
	if params != nil {
		request["params"] = params
	}
	if b.session != "" {
		request["sessionId"] = b.session
	}
	data, err := json.Marshal(request)
	if err == nil {
		b.waiting[b.next] = ch
		_, err = b.out.Write(append(data, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case r, ok := <-ch:
		switch {
		case !ok:
			return b.broken
		case r.Error != nil && strings.Contains(r.Error.Message, "navigated"):
			return fmt.Errorf("%w: %s", ErrNavigated, method)
		case r.Error != nil:
			return fmt.Errorf("browser: %s: %s", method, r.Error.Message)
		case result == nil:
			return nil
		}
		return json.Unmarshal(r.Result, result)
	}
}

// ErrNavigated: the page navigated while a command was under way.
var ErrNavigated = errors.New("browser: the page navigated")

// Eval runs an expression in the page, waiting for it if it is a promise, and decodes its value.
func (b *Browser) Eval(ctx context.Context, expression string, value any) error {
	var out struct {
		Result struct {
			Value json.RawMessage
		}
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	err := b.Call(ctx, "Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}, &out)
	switch {
	case err != nil:
		return err
	case out.ExceptionDetails != nil:
		return fmt.Errorf("browser: %s %s", out.ExceptionDetails.Text, out.ExceptionDetails.Exception.Description)
	case value == nil || out.Result.Value == nil:
		return nil
	}
	return json.Unmarshal(out.Result.Value, value)
}

// Open loads url and waits until it is complete.
func (b *Browser) Open(ctx context.Context, url string) error {
	if err := b.Call(ctx, "Page.navigate", map[string]any{"url": url}, nil); err != nil {
		return err
	}
	return b.Eval(ctx, `new Promise(done => document.readyState == "complete" && location.href != "about:blank" ? done() : addEventListener("load", done))`, nil)
}

// Size sets the window's width and height in CSS pixels, each drawn with scale pixels a side.
func (b *Browser) Size(ctx context.Context, width, height int, scale float64) error {
	return b.Call(ctx, "Emulation.setDeviceMetricsOverride", map[string]any{
		"width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 600}, nil)
}

// Scheme makes the page see a preference for "light" or "dark".
func (b *Browser) Scheme(ctx context.Context, scheme string) error {
	return b.Call(ctx, "Emulation.setEmulatedMedia", map[string]any{
		"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// Screenshot returns the whole page as a PNG.
func (b *Browser) Screenshot(ctx context.Context) ([]byte, error) {
	var shot struct{ Data string }
	err := b.Call(ctx, "Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true}, &shot)
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(shot.Data)
}
