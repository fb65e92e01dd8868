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

// Pools of equal names, and of none, are published one by one.
func TestEqualNames(t *testing.T) {
	var pools []*tarn.Pool
	for i, name := range []string{"same", "", "same", ""} {
		p, err := tarn.NewPool(tarn.PoolConfig{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		for range i + 1 {
			p.Get(100).Free()
		}
		pools = append(pools, p)
	}
	var got map[string]map[string]float64
	if err := json.Unmarshal([]byte(Var(pools...).String()), &got); err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"same", "pool 2", "same 2", "pool 4"} {
		if got[name]["tarn_pool_gets_total"] != float64(i+1) {
			t.Errorf("%s: %v, want %d gets", name, got[name], i+1)
		}
	}
}
