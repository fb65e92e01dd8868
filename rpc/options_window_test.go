package rpc

import (
	"math"
	"testing"
)

// TestStaticWindows: with either of the static window sizes no window grows: neither a stream's, which is 256 KiB if
// nothing else is set, nor the connection's, which grows only with those of streams (TestGrowth of h2).
func TestStaticWindows(t *testing.T) {
	type window struct{ stream, most, conn int }
	const mib = 1 << 20
	for _, c := range []struct {
		name   string
		client []DialOption
		server []ServerOption
		want   window
	}{
		{"none", nil, nil, window{}},
		{"initial", []DialOption{WithInitialWindowSize(mib), WithInitialConnWindowSize(2 * mib)}, []ServerOption{InitialWindowSize(mib), InitialConnWindowSize(2 * mib)}, window{mib, 0, 2 * mib}},
		{"a stream's", []DialOption{WithStaticStreamWindowSize(mib)}, []ServerOption{StaticStreamWindowSize(mib)}, window{mib, mib, 0}},
		{"the connection's", []DialOption{WithStaticConnWindowSize(2 * mib)}, []ServerOption{StaticConnWindowSize(2 * mib)}, window{staticWindow, staticWindow, 2 * mib}},
		{"too small", []DialOption{WithStaticStreamWindowSize(smallestWindow - 1)}, []ServerOption{StaticStreamWindowSize(smallestWindow - 1)}, window{staticWindow, staticWindow, 0}},
		{"both", []DialOption{WithStaticConnWindowSize(mib), WithStaticStreamWindowSize(smallestWindow)}, []ServerOption{StaticConnWindowSize(mib), StaticStreamWindowSize(smallestWindow)},
			window{smallestWindow, smallestWindow, mib}},
	} {
		d, s := defaultDialOptions(), defaultServerOptions()
		JoinDialOptions(c.client...).apply(&d)
		JoinServerOptions(c.server...).apply(&s)
		dc, sc := d.h2(), s.h2()
		if got := (window{dc.Window, dc.MaxWindow, dc.ConnWindow}); got != c.want {
			t.Errorf("%s, client: %+v, want %+v", c.name, got, c.want)
		}
		if got := (window{sc.Window, sc.MaxWindow, sc.ConnWindow}); got != c.want {
			t.Errorf("%s, server: %+v, want %+v", c.name, got, c.want)
		}
	}
	o := defaultServerOptions()
	MaxConcurrentStreams(0).apply(&o)
	if got := o.h2().MaxStreams; got != math.MaxInt32 {
		t.Errorf("MaxConcurrentStreams(0): %d streams", got)
	}
}
