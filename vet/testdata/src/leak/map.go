package leak

import "github.com/tarn-go/tarn"

type table struct{ m map[string]tarn.Buffer }

func (t *table) overwritten(p *tarn.Pool, k string) {
	t.m[k] = p.Get(10)
	t.m[k] = p.Get(20) // want `leak: .* is overwritten without having been freed`
}

func (t *table) overwrittenVariable(p *tarn.Pool, k string) {
	b := p.Get(10)
	t.m[k] = b
	t.m[k] = p.Get(20) // want `leak: b from p.Get is overwritten`
}

func (t *table) replaced(p *tarn.Pool, k string) {
	t.m[k] = p.Get(10)
	if old, ok := t.m[k]; ok {
		old.Free()
	}
	t.m[k] = p.Get(20)
}

func (t *table) emptied(p *tarn.Pool, k string) {
	t.m[k] = p.Get(10)
	t.close()
	t.m[k] = p.Get(20)
}

func (t *table) otherKeys(p *tarn.Pool, keys []string) {
	t.m["a"] = p.Get(10)
	t.m["b"] = p.Get(10)
	for _, k := range keys {
		t.m[k] = p.Get(len(k))
	}
}

func (t *table) close() {
	for k, b := range t.m {
		b.Free()
		delete(t.m, k)
	}
}
