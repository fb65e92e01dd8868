package adapt_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/adapt"
)

// A reverse proxy copies bodies through buffers of a separate pool.
func ExampleHTTPUtil() {
	pool, err := tarn.NewPool(tarn.PoolConfig{Name: "proxy", Retain: 16 << 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "hello from behind")
	}))
	defer origin.Close()
	target, _ := url.Parse(origin.URL)
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:    func(r *httputil.ProxyRequest) { r.SetURL(target) },
		BufferPool: adapt.HTTPUtil(pool, 0),
	})
	defer proxy.Close()

	resp, err := http.Get(proxy.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	fmt.Printf("%s\n", body)
	fmt.Println("refused:", pool.Stats().Refused)
	// Output:
	// hello from behind
	// refused: 0
}

// What grpc-go does with its pool. There, the adapter goes into experimental.WithBufferPool for a
// client and experimental.BufferPool for a server.
func ExampleGRPC() {
	pool, err := tarn.NewPool(tarn.PoolConfig{Name: "grpc"})
	if err != nil {
		fmt.Println(err)
		return
	}
	g := adapt.GRPC(pool)
	p := g.Get(16 << 10)
	fmt.Println(len(*p), "bytes,", pool.Stats().InUseBuffers, "buffer out")
	g.Put(p)
	fmt.Println(pool.Stats().InUseBuffers, "buffers out")
	// Output:
	// 16384 bytes, 1 buffer out
	// 0 buffers out
}

// What Arrow's builders do with their allocator.
func ExampleArrow() {
	pool, err := tarn.NewPool(tarn.PoolConfig{Name: "arrow", Report: func(tarn.Misuse) {}})
	if err != nil {
		fmt.Println(err)
		return
	}
	a := adapt.Arrow(pool)
	b := a.Allocate(100)
	copy(b, "columns")
	b = a.Reallocate(1000, b)
	fmt.Printf("%s, %d bytes\n", b[:7], len(b))
	a.Free(b)
	a.Free([]byte("not Arrow's")) // refused, and reported
	fmt.Println("refused:", pool.Stats().Refused)
	// Output:
	// columns, 1000 bytes
	// refused: 1
}
