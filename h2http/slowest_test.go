package h2http_test

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/debug"
	"github.com/tarn-go/tarn/debug/endpoint"
)

// TestSlowestRequest: each route names the slowest request of the last minute, and its trace, whether the handler has needed the header or not.
func TestSlowestRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page := debug.NewRegistry()
		c := countedPair(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			d, _ := time.ParseDuration(r.URL.Query().Get("for"))
			<-time.After(d)
		}), page)
		const first, second = "4bf92f3577b34da6a3ce929d0e0e4736", "0af7651916cd43dd8448eb211c80319c"
		for _, x := range []struct{ took, trace string }{{"10ms", ""}, {"2s", first}, {"1s", second}} {
			r, err := http.NewRequest("GET", "http://pipe/?for="+x.took, nil)
			if err != nil {
				t.Fatal(err)
			}
			if x.trace != "" {
				r.Header.Set("Traceparent", "00-"+x.trace+"-00f067aa0ba902b7-01")
			}
			resp, err := c.client.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		synctest.Wait()
		want := endpoint.Slow{Seconds: 2, Trace: first}
		for name, e := range map[string]endpoint.State{"server": c.server.Endpoint(), "client": c.client.Endpoint()} {
			if len(e.Methods) != 1 || e.Methods[0].Slowest == nil || *e.Methods[0].Slowest != want {
				t.Errorf("%s: %+v", name, e.Methods)
			}
		}
		<-time.After(2 * time.Minute)
		if m := c.server.Endpoint().Methods[0]; m.Slowest != nil {
			t.Errorf("after two minutes: %+v", m.Slowest)
		}
	})
}
