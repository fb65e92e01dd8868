package resolve

import (
	"context"
	"errors"
	"testing"
)

func TestTargets(t *testing.T) {
	for _, c := range []struct{ target, network, address, authority string }{
		{"127.0.0.1:50051", "tcp", "127.0.0.1:50051", "127.0.0.1:50051"},
		{"dns:///127.0.0.1:1", "tcp", "127.0.0.1:1", "127.0.0.1:1"},
		{"dns:127.0.0.1:1", "tcp", "127.0.0.1:1", "127.0.0.1:1"},
		{"dns:///[::1]:1", "tcp", "[::1]:1", "[::1]:1"},
		{"127.0.0.1", "tcp", "127.0.0.1:443", "127.0.0.1:443"},
		{"passthrough:///bufnet", "tcp", "bufnet", "bufnet"},
		{"passthrough:bufnet", "tcp", "bufnet", "bufnet"},
		{"unix:/tmp/s", "unix", "/tmp/s", "localhost"},
		{"unix:///tmp/s", "unix", "/tmp/s", "localhost"},
		{"unix:s", "unix", "s", "localhost"},
		{"unix-abstract:name", "unix", "@name", "localhost"},
	} {
		tg, err := Parse(c.target)
		if err != nil {
			t.Errorf("%q: %v", c.target, err)
			continue
		}
		as, err := tg.Resolve(context.Background())
		if err != nil || len(as) != 1 || as[0] != (Addr{c.network, c.address}) || tg.Authority() != c.authority {
			t.Errorf("%q: %v, %v, %q", c.target, as, err, tg.Authority())
		}
	}
	for _, bad := range []string{"", "dns:///", "dns://x", "host:", "unix:", "unix://host/p", "xds:///a", "a:b:c"} {
		if _, err := Parse(bad); !errors.Is(err, ErrTarget) {
			t.Errorf("Parse(%q) = %v", bad, err)
		}
	}
}
