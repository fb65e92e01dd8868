package vars_test

import (
	"encoding/json"
	"expvar"
	"fmt"
	"log"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/debug/vars"
)

// Publish makes expvar serve the pools at /debug/vars; Var is the same for a map of the program's own.
func ExampleVar() {
	pool, err := tarn.NewPool(tarn.PoolConfig{Name: "frames"})
	if err != nil {
		log.Fatal(err)
	}
	var own expvar.Map
	own.Set("tarn", vars.Var(pool))

	b := pool.Get(16 << 10)
	defer b.Free()
	var values struct{ Tarn map[string]map[string]float64 }
	if err := json.Unmarshal([]byte(own.String()), &values); err != nil {
		log.Fatal(err)
	}
	fmt.Println(values.Tarn["frames"]["tarn_pool_in_use_bytes"])
	// Output: 16384
}
