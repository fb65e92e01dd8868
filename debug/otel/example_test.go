package otel_test

import (
	"log"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/debug/otel"
)

func Example() {
	pool, err := tarn.NewPool(tarn.PoolConfig{Name: "frames"})
	if err != nil {
		log.Fatal(err)
	}
	provider := noop.NewMeterProvider() // in a program its own, or GetMeterProvider of go.opentelemetry.io/otel
	registration, err := otel.Register(provider.Meter("myservice"), pool)
	if err != nil {
		log.Fatal(err)
	}
	defer registration.Unregister() // when the pool is no longer to be published
}
