package h2http

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// echo answers with the request's body, and /N with N bytes.
func echo() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{n}", func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(r.PathValue("n"))
		if err != nil {
			http.NotFound(w, r)
			return
		}
		io.Copy(w, io.LimitReader(zeros{}, int64(n)))
	})
	mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Count")
		n, err := io.Copy(w, r.Body)
		w.Header().Set("Count", fmt.Sprint(n, err))
	})
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) })
	return mux
}

// zeros is an endless Reader of the digit 0.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

// file makes a file of n bytes.
func file(t *testing.T, n int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(strings.Repeat("x", n)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCurl(t *testing.T) {
	curl := need(t, "curl")
	eachWay(t, func(t *testing.T, s security) {
		url := serve(t, s, echo())
		args := []string{"-sS", "-k", "--http2"}
		if s == plain {
			args[2] = "--http2-prior-knowledge"
		}
		get := func(more ...string) string { return run(t, curl, append(args[:3:3], more...)...) }
		if out := get(url); out != "HTTP/2.0" {
			t.Errorf("GET: %q", out)
		}
		if out := get("-w", "%{http_version} %{response_code} %{size_download}", "-o", os.DevNull, url+"/1000000"); out != "2 200 1000000" {
			t.Errorf("GET of 1 MB: %q", out)
		}
		if out := get("--data-binary", "@"+file(t, 1<<20), url); len(out) != 1<<20 {
			t.Errorf("POST of 1 MiB: %d bytes came back", len(out))
		}
		if out := get("-H", "Expect: 100-continue", "-d", "hello", url); out != "hello" {
			t.Errorf("POST with Expect: %q", out)
		}
		if out := get("-I", url); !strings.HasPrefix(out, "HTTP/2 200") {
			t.Errorf("HEAD: %q", out)
		}
		if out := run(t, curl, "-sS", "-k", "--http1.1", url); out != "HTTP/1.1" {
			t.Errorf("GET over HTTP/1.1: %q", out)
		}
	})
}

func TestNghttp(t *testing.T) {
	nghttp := need(t, "nghttp")
	eachWay(t, func(t *testing.T, s security) {
		url := serve(t, s, echo())
		if out := run(t, nghttp, "-y", url+"/"); out != "HTTP/2.0" {
			t.Errorf("GET: %q", out)
		}
		if out := run(t, nghttp, "-y", "-w", "14", "-W", "15", url+"/300000"); len(out) != 300000 {
			t.Errorf("GET with small windows: %d bytes", len(out))
		}
		out := run(t, nghttp, "-nvy", "-d", file(t, 300000), url+"/")
		if !strings.Contains(out, "count: 300000 <nil>") {
			t.Errorf("POST: no trailer in %s", out[max(0, len(out)-2000):])
		}
	})
}

func TestH2load(t *testing.T) {
	h2load := need(t, "h2load")
	eachWay(t, func(t *testing.T, s security) {
		url := serve(t, s, echo())
		for _, path := range []string{"/", "/16384", "/1000000"} {
			n := "2000"
			if path == "/1000000" {
				n = "100"
			}
			out := run(t, h2load, "-n", n, "-c", "10", "-m", "10", "-t", "1", url+path)
			if !strings.Contains(out, n+" succeeded, 0 failed, 0 errored, 0 timeout") {
				t.Errorf("%s: %s", path, out)
			}
		}
	})
}

func TestHTTPX(t *testing.T) {
	python := need(t, "/usr/bin/python3")
	if _, err := os.Stat("/usr/lib/python3/dist-packages/httpx"); err != nil {
		leave(t, "python3-httpx")
	}
	eachWay(t, func(t *testing.T, s security) { httpx(t, s, python) })
}

func httpx(t *testing.T, s security, python string) {
	url := serve(t, s, echo())
	out := run(t, python, "-c", `
import asyncio, sys, httpx
url = sys.argv[1]
async def main():
    async with httpx.AsyncClient(http1=False, http2=True, verify=False, timeout=30) as c:
        answers = await asyncio.gather(*[c.post(url + "/", content=b"x" * (1000 * i)) for i in range(50)])
        assert all(len(a.content) == 1000 * i for i, a in enumerate(answers)), "lengths"
        assert all(a.http_version == "HTTP/2" for a in answers), "version"
        async with c.stream("GET", url + "/2000000") as r:
            n = 0
            async for b in r.aiter_bytes():
                n += len(b)
            assert n == 2000000, n
asyncio.run(main())
print("done")
`, url)
	if out != "done\n" {
		t.Errorf("%q", out)
	}
}

func TestNodeClient(t *testing.T) {
	node := need(t, "node")
	eachWay(t, func(t *testing.T, s security) {
		url := serve(t, s, echo())
		out := run(t, node, "-e", `
const http2 = require('http2');
const session = http2.connect(process.argv[1], { rejectUnauthorized: false });
session.on('error', e => { console.log(e); process.exit(1); });
let left = 50;
for (let i = 0; i < 50; i++) {
  const req = session.request({ ':method': 'POST', ':path': '/' });
  let n = 0, status = 0, trailer = '';
  req.on('response', h => { status = h[':status']; });
  req.on('trailers', h => { trailer = h['count']; });
  req.on('data', d => { n += d.length; });
  req.on('end', () => {
    const want = i * 5000;
    if (n !== want || status !== 200 || trailer !== want + ' <nil>') { console.log('got', n, status, trailer); process.exit(1); }
    if (--left === 0) { session.close(); console.log('done'); }
  });
  req.end(Buffer.alloc(i * 5000, 'x'));
}
`, url)
		if out != "done\n" {
			t.Errorf("%q", out)
		}
	})
}
