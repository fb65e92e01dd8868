package rpc

import (
	"sync"

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
		cc.recorder, err = noRecorder()
		return err
	}
	if cc.recorder, err = grpcgo.Recorder(to); err == nil {
		cc.metrics = newSubchannelMetrics(cc.recorder, cc.name)
	}
	return err
}

// noRecorder returns the recorder of clients without a handler that records metrics.
var noRecorder = sync.OnceValues(func() (estats.MetricsRecorder, error) { return grpcgo.Recorder(nil) })
