// Package vars publishes pools by expvar, at /debug/vars:
//
//	vars.Publish("tarn", pool)
//
// A program that does not import this package does not import expvar, which mounts itself.
package vars

import (
	"expvar"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/debug/internal/metrics"
	"github.com/tarn-go/tarn/debug/internal/names"
)

// Publish publishes pools under name: an object of objects, pool by pool, with the figures of the
// debug page's Prometheus text and a sum of each class's. Nil pools are left out. A pool without a name is
// named by its position, and one whose name is taken by a pool before it has a number after it. Each reading
// asks each pool for its Stats once. Like expvar.Publish it ends the program if the name is taken.
func Publish(name string, pools ...*tarn.Pool) {
	expvar.Publish(name, Var(pools...))
}

// Var is the variable that Publish publishes, for programs with a separate map.
func Var(pools ...*tarn.Pool) expvar.Var {
	return expvar.Func(func() any {
		all := map[string]map[string]float64{}
		for i, p := range pools {
			if p == nil {
				continue
			}
			s := p.Stats()
			values := map[string]float64{}
			for _, m := range metrics.Pool() {
				values[m.Name] = m.Value(s)
			}
			name := names.Unused(names.Pool(p.Name(), i), func(name string) bool { return all[name] != nil })
			all[name] = values
		}
		return all
	})
}
