package rpc

import (
	"sync"

	"github.com/tarn-go/tarn/rpc/internal/balance"
	"github.com/tarn-go/tarn/rpc/internal/grpcgo"
	"google.golang.org/grpc"
	estats "google.golang.org/grpc/experimental/stats"
)

// recordMetrics finds what resolvers, balancers and connections record metrics with: grpc-go's own recorder,
// which passes them on to the handlers that implement estats.MetricsRecorder.
func (cc *ClientConn) recordMetrics() (err error) {
	var to []grpc.DialOption
	for _, h := range cc.opts.stats {
		if _, ok := h.(estats.MetricsRecorder); ok {
			to = append(to, grpc.WithStatsHandler(h))
		}
	}
	if len(to) == 0 {
		cc.metrics, err = noMetrics()
		return err
	}
	r, err := grpcgo.Recorder(to)
	if err == nil {
		cc.metrics = balance.NewMetrics(r, cc.Target())
	}
	return err
}

// noMetrics is for clients without a handler that records metrics.
var noMetrics = sync.OnceValues(func() (*balance.Metrics, error) {
	r, err := grpcgo.Recorder(nil)
	if err != nil {
		return nil, err
	}
	return balance.NoMetrics(r), nil
})
