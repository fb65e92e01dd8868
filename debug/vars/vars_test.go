package vars

import (
	"encoding/json"
	"expvar"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/tarn-go/tarn"
)

// runs numbers the runs of TestPublish: with -count there are several, and expvar cannot unpublish.
var runs atomic.Int32

func TestPublish(t *testing.T) {
	p, err := tarn.NewPool(tarn.PoolConfig{Name: "one"})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		p.Get(5000).Free()
		p.Get(50).Free()
	}
	name := fmt.Sprintf("tarn_test_%d", runs.Add(1))
	Publish(name, p, nil)
	var got map[string]map[string]float64
	if err := json.Unmarshal([]byte(expvar.Get(name).String()), &got); err != nil {
		t.Fatal(err)
	}
	if got["one"]["tarn_pool_gets_total"] != 20 || got["one"]["tarn_pool_in_use_bytes"] != 0 {
		t.Errorf("%v", got)
	}
}
