package h2http

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/browser"
)

// TestChromium loads a page of 200 assets over TLS.
func TestChromium(t *testing.T) {
	chromium := need(t, "chromium")
	t.Run("ServeTLS", func(t *testing.T) { loadPage(t, overTLS, chromium) })
	t.Run("ConfigureServer", func(t *testing.T) { loadPage(t, configured, chromium) })
}

func loadPage(t *testing.T, s security, chromium string) {
	const assets = 200
	var page strings.Builder
	page.WriteString("<html><body><script>let n = 0; function one() { n++ }</script>")
	for i := range assets {
		fmt.Fprintf(&page, `<img src="/asset/%d.svg" onload="one()">`, i)
	}
	page.WriteString(`<script>onload = () => { document.title = "loaded " + n }</script></body></html>`)
	var mu sync.Mutex
	seen := make(map[string]int) // by protocol
	conns := make(map[string]bool)
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, page.String()) })
	mux.HandleFunc("/asset/", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen[r.Proto]++
		conns[r.RemoteAddr] = true
		mu.Unlock()
		w.Header().Set("Content-Type", "image/svg+xml")
		fmt.Fprint(w, `<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"></svg>`)
	})
	url := serve(t, s, mux)
	profile := t.TempDir()
	temporary, err := browser.TemporaryDir()
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(temporary)
	t.Setenv("TMPDIR", temporary)
	out := run(t, chromium, "--headless", "--no-sandbox", "--disable-gpu", "--ignore-certificate-errors",
		"--disable-background-networking", "--no-first-run", "--user-data-dir="+profile, "--timeout="+fmt.Sprint(30*time.Second.Milliseconds()),
		"--dump-dom", url+"/")
	if !strings.Contains(out, fmt.Sprintf("<title>loaded %d</title>", assets)) {
		t.Errorf("the page did not load: %s", out[:min(len(out), 500)])
	}
	mu.Lock()
	defer mu.Unlock()
	if seen["HTTP/2.0"] != assets || len(seen) != 1 || len(conns) != 1 {
		t.Errorf("assets by protocol %v, on %d connections", seen, len(conns))
	}
}
