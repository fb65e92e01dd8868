package double

import (
	"testing"

	"github.com/tarn-go/tarn"
)

func made(t testing.TB, p *tarn.Pool) tarn.Buffer {
	t.Helper()
	b := p.Get(10)
	t.Cleanup(b.Free)
	return b
}

func madeByLiteral(t testing.TB, p *tarn.Pool) tarn.Buffer {
	b := p.Get(10)
	t.Cleanup(func() { b.Free() })
	return b
}

func besideCleanup(t *testing.T, p *tarn.Pool) {
	b := p.Get(10)
	t.Cleanup(b.Free)
	b.Free() // want `double free: b is freed here, and again when the test ends: its Free was passed to Cleanup at line \d+`
}

func besideHelper(t *testing.T, p *tarn.Pool) {
	b := made(t, p)
	b.Free() // want `double free: b is freed here, and again when the test ends: made passed its Free to Cleanup`
}

func deferredBesideHelper(t *testing.T, p *tarn.Pool) {
	b := madeByLiteral(t, p)
	defer b.Free() // want `double free: b is freed here, and again when the test ends`
	_ = b.Bytes()
}

func appendedBesideHelper(t *testing.T, p *tarn.Pool, c *tarn.Chain) {
	b := made(t, p)
	c.Append(b) // want `double free: b is given to c.Append here, which takes ownership, and freed again when the test ends`
}

func usedBesideHelper(t *testing.T, p *tarn.Pool, c *tarn.Chain) {
	b := made(t, p)
	_ = b.Bytes()
	c.Append(b.Ref())
}

func lastValueFreed(t *testing.T, p *tarn.Pool) {
	b := p.Get(10)
	t.Cleanup(func() { b.Free() })
	b = b.Narrow(0, 5)
}
