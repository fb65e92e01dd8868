package smb_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
)

// names resolves the names of a test's servers, as DNS would, and counts how often each is dialled.
type names struct {
	servers map[string]*rig.Server

	mu      sync.Mutex
	dialled map[string]int
}

func (n *names) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if host == "127.0.0.1" {
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	srv := n.servers[host]
	if srv == nil {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	n.mu.Lock()
	n.dialled[host]++
	n.mu.Unlock()
	return new(net.Dialer).DialContext(ctx, network, srv.Addr)
}

// A link and a root have two targets on two servers: the first is used while it can be reached, then the
// second, and the one that was used last stays in use.
func TestDFSFailover(t *testing.T) {
	for _, mode := range []rig.Mode{rig.Plain, rig.Signed, rig.Encrypted} {
		t.Run(mode.Name(), func(t *testing.T) {
			one, two := rigtest.Start(t, rig.Config{Mode: mode}), rigtest.Start(t, rig.Config{Mode: mode})
			space := rigtest.Start(t, rig.Config{
				Mode:   mode,
				Global: []string{"host msdfs = yes"},
				Shares: []string{
					"[space]\n  path = %DIR%/space\n  msdfs root = yes",
					"[root]\n  path = %DIR%/space\n  msdfs root = yes\n  msdfs proxy = \\one\\share,\\two\\share",
				},
			})
			must(t, os.Mkdir(filepath.Join(space.Dir, "space"), 0o755))
			must(t, os.Symlink(`msdfs:one\share,two\share`, filepath.Join(space.Dir, "space", "link")))
			for name, srv := range map[string]*rig.Server{"one": one, "two": two} {
				must(t, os.WriteFile(filepath.Join(srv.Dir, "who"), []byte(name), 0o644))
			}
			n := &names{servers: map[string]*rig.Server{"space": space, "one": one, "two": two}, dialled: map[string]int{}}
			d := smb.Dialer{DialFunc: through(t, n.dial), Host: "space"}
			d.Limits.RedialTimeout = -1
			sess := dial(t, space, d)
			link, err := sess.Mount(t.Context(), "space")
			must(t, err)
			root, err := sess.Mount(t.Context(), "root")
			must(t, err)
			who := func(want string) {
				t.Helper()
				for name, read := range map[string]func() ([]byte, error){
					"link": func() ([]byte, error) { return link.ReadFile("link/who") },
					"root": func() ([]byte, error) { return root.ReadFile("who") },
				} {
					if b, err := read(); err != nil || string(b) != want {
						t.Errorf("%s: %q, %v, want %s", name, b, err, want)
					}
				}
			}
			who("one")
			one.Kill()
			who("two")
			must(t, one.Start())
			who("two")
			for i := range 5 {
				must(t, root.WriteFile(fmt.Sprint(i), nil, 0o666))
			}
			n.mu.Lock()
			defer n.mu.Unlock()
			if n.dialled["two"] != 1 {
				t.Errorf("dialled: %v", n.dialled)
			}
		})
	}
}
