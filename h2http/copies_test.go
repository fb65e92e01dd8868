package h2http_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/tarntest"
)

// taken is how many bytes a pool has handed out since it was made.
func taken(p *tarn.Pool) (n uint64) {
	for _, c := range p.Stats().Classes {
		n += c.Gets * uint64(c.Size)
	}
	return n
}

// serveWith serves h by Serve, on TCP, with this pool.
func serveWith(t *testing.T, pool *tarn.Pool, h http.Handler) (url string) {
	t.Helper()
	l := listen(t, false)
	srv := &http.Server{Handler: h}
	if err := h2http.ConfigureServer(srv, &h2http.Config{Pool: pool}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); h2http.Serve(l, srv) }()
	t.Cleanup(func() {
		srv.Shutdown(context.Background())
		<-ended
	})
	return "http://" + l.Addr().String()
}

// TestWhatIsCopied counts the bytes for which a server takes memory while it sends chains on TCP: those of pieces of less than
// 2 KiB, of chains that are gathered, and of a Write. Each send takes memory for its frames, too.
func TestWhatIsCopied(t *testing.T) {
	faultnet.NeedsTCP(t, "what is copied depends on the kind of connection")
	for _, c := range []struct {
		name                   string
		piece, pieces, repeats int // bytes of a piece, pieces of a chain, and chains; 0: a Write
		copied                 bool
	}{
		{"1 MiB", 1 << 20, 1, 1, false},
		{"pieces of 2 KiB", 2 << 10, 200, 1, false},
		{"pieces of less", 2<<10 - 1, 200, 1, true},
		{"chains of 4 KiB", 4 << 10, 1, 50, true},
		{"chains of more", 4<<10 + 1, 1, 50, false},
		{"Write", 1 << 20, 1, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			lent := tarntest.NewPool(t)
			content := text(c.piece)
			pool, took := tarntest.NewPool(t), make(chan uint64, 1)
			url := serveWith(t, pool, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.(http.Flusher).Flush()
				before := taken(pool)
				if c.repeats == 0 {
					io.WriteString(w, content)
				}
				for range c.repeats {
					var chain tarn.Chain
					for range c.pieces {
						chain.Append(lent.Copy([]byte(content)))
					}
					if err := h2http.WriteChain(w, &chain); err != nil {
						t.Error(err)
					}
					w.(http.Flusher).Flush()
				}
				took <- taken(pool) - before
			}))
			resp, err := (&http.Client{Transport: ownTransport(t, new(clientSetup))}).Get(url)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			if want := strings.Repeat(content, c.pieces*max(c.repeats, 1)); string(b) != want || err != nil {
				t.Errorf("%d bytes have come, not %d, %v", len(b), len(want), err)
			}
			if n := int(<-took); n < len(b)*3/4 == c.copied || c.copied && n < len(b) {
				t.Errorf("memory for %d bytes was taken to send %d", n, len(b))
			}
		})
	}
}
