package endpoint_test

import (
	"fmt"
	"sync/atomic"

	"github.com/tarn-go/tarn/debug"
	"github.com/tarn-go/tarn/debug/endpoint"
)

// proxy is a server of the program's own.
type proxy struct{ conns atomic.Int64 }

// Endpoint reports what the proxy is doing.
func (p *proxy) Endpoint() endpoint.State {
	return endpoint.State{Kind: "proxy", Name: "127.0.0.1:7000", Conns: int(p.conns.Load())}
}

// A server that is not one of package rpc or h2http is on the debug page, too, when it reports its state.
func Example() {
	p := new(proxy)
	p.conns.Add(3)
	registry := debug.NewRegistry()
	registry.AddEndpoints(p) // a real program: http.Handle("/debug/tarn/", debug.HandlerOf(registry))

	for _, e := range debug.NewWatcher(registry).Snapshot().Endpoints {
		fmt.Println(e.Name, e.Conns)
	}
	// Output: proxy 127.0.0.1:7000 3
}
