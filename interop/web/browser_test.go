package web

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/internal/leftout"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// A page of another origin calls the server with connect-es from a browser: HTTP/2 over TLS, and
// unencrypted HTTP/1.1.
func TestConnectESInChromium(t *testing.T) {
	leftout.Need(t, "chromium", "chromium")
	dir := modules(t, "@connectrpc/connect-web", "@connectrpc/connect", "@bufbuild/protobuf")
	result := make(chan string, 1)
	var servers []string
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, "testdata/browser.html") })
	mux.Handle("/modules/", http.StripPrefix("/modules/", http.FileServer(http.Dir(dir))))
	set := descriptors(t)
	mux.HandleFunc("/descriptors", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, set) })
	mux.HandleFunc("/servers", func(w http.ResponseWriter, r *http.Request) { json.NewEncoder(w).Encode(servers) })
	mux.HandleFunc("/result", func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		result <- string(text)
	})
	page := httptest.NewServer(mux)
	defer page.Close()
	// The metadata of Connect's unary trailers has separate names.
	cors := rpc.CORS(rpc.CORSConfig{Origins: []string{page.URL}, Headers: []string{"X-Echo"},
		Expose: []string{"X-Echo-Header", "X-Echo-Trailer", "Trailer-X-Echo-Trailer"}})
	s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), cors)
	pb.RegisterTestServiceServer(s, service{})
	plain := httptest.NewServer(s)
	defer plain.Close()
	servers = []string{start(t, cors).URL, plain.URL}

	profile, err := os.MkdirTemp("", "tarn-web")
	if err != nil {
		t.Fatal(err)
	}
	// The browser's processes may still write there, so an error of the removal does not fail the test.
	defer os.RemoveAll(profile)
	cmd := exec.Command("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--ignore-certificate-errors",
		"--remote-debugging-port=0", "--user-data-dir="+profile, page.URL)
	cmd.Env = append(os.Environ(), "TMPDIR="+profile) // its folder there is removed with the profile
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	defer func() {
		cmd.Process.Kill()
		<-exited
	}()
	select {
	case text := <-result:
		if n := strings.Count(text, "ok "); n != 8 || strings.Contains(text, "failed") {
			t.Errorf("%d of 8:\n%s", n, text)
		}
	case err := <-exited:
		exited <- err
		t.Fatalf("chromium ended before the page's script: %v", err)
	case <-longCtx(t).Done():
		t.Fatal("the page's script has not ended")
	}
}
