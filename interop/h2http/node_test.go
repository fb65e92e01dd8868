package h2http

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/tarn-go/tarn/internal/testcert"
)

// TestNodeServer sends requests to Node.js.
func TestNodeServer(t *testing.T) { eachClient(t, nodeServer) }

func nodeServer(t *testing.T, s security, c *http.Client) {
	node := need(t, "node")
	cmd := exec.Command(node, "-e", `
const http2 = require('http2'), fs = require('fs');
const [cert, key] = process.argv.slice(1);
const options = { settings: { maxConcurrentStreams: 5 } };
const server = cert ? http2.createSecureServer({ ...options, cert: fs.readFileSync(cert), key: fs.readFileSync(key) }) : http2.createServer(options);
server.on('stream', (stream, headers) => {
  stream.additionalHeaders({ ':status': 103, link: '</x>' });
  stream.respond({ ':status': 200, 'x-path': headers[':path'] }, { waitForTrailers: true });
  stream.on('wantTrailers', () => stream.sendTrailers({ sum: 'yes' }));
  stream.pipe(stream);
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
`)
	url := "http://127.0.0.1:"
	if s == overTLS {
		cert, key, _ := testcert.Files(t)
		cmd.Args = append(cmd.Args, cert, key)
		url = "https://127.0.0.1:"
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url += strings.TrimSpace(port)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			n := 4000 * i
			resp, err := c.Post(url+"/echo", "", bytes.NewReader(make([]byte, n)))
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			if len(b) != n || err != nil || resp.Header.Get("X-Path") != "/echo" || resp.Trailer.Get("Sum") != "yes" {
				t.Errorf("%d bytes of %d, %v, %v %v", len(b), n, err, resp.Header, resp.Trailer)
			}
		})
	}
	wg.Wait()
}
