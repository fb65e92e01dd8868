package prom_test

import (
	"fmt"
	"log"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/debug/prom"
)

func Example() {
	pool, err := tarn.NewPool(tarn.PoolConfig{Name: "frames"})
	if err != nil {
		log.Fatal(err)
	}
	registry := prometheus.NewRegistry() // or prometheus.DefaultRegisterer
	registry.MustRegister(prom.New(pool))

	b := pool.Get(16 << 10)
	defer b.Free()
	families, err := registry.Gather()
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "tarn_pool_in_use_bytes" {
			fmt.Println(f.GetName(), f.GetMetric()[0].GetGauge().GetValue())
		}
	}
	// Output: tarn_pool_in_use_bytes 16384
}
