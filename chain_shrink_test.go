package tarn_test

import (
	"bytes"
	"testing"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/tarntest"
)

// TestShrinkChain: small remains of large slabs are copied, slabs that the chain uses well are not.
func TestShrinkChain(t *testing.T) {
	p := tarntest.NewPool(t)
	var c tarn.Chain
	defer c.Free()
	full := p.Get(64 << 10)
	clear(full.Bytes())
	at := &full.Bytes()[0]
	c.Append(p.Copy(bytes.Repeat([]byte("x"), 64<<10)).Narrow(10, 20))
	c.Append(full)
	for range 10 {
		c.Append(p.Copy(bytes.Repeat([]byte("y"), 64<<10)).Narrow(0, 1))
	}
	c.Shrink()
	if held := c.Held(); held > 4*c.Len()+4<<10 || c.Len() != 64<<10+20 {
		t.Errorf("%d bytes hold %d", c.Len(), held)
	}
	views, err := c.Peek(c.Len(), nil)
	if err != nil || len(views) != 3 || &views[1][0] != at {
		t.Errorf("%d views, %v, or the full slab was copied", len(views), err)
	}
	if got := string(views[0]) + string(views[2]); got != "xxxxxxxxxxyyyyyyyyyy" {
		t.Errorf("%q", got)
	}
	var empty tarn.Chain
	empty.Shrink()
}
