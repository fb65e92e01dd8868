package smb

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
)

// TestAtOnce counts how many files are copied at a time, of those that are longer than smallFile and of others.
func TestAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		jobs, files int
		size        int64
		want        int32
	}{
		"large":          {4, 100, smallFile + 1, 4},
		"small":          {3, 100, smallFile, 48},
		"small, default": {4, 100, smallFile, 64},
		"small, at most": {8, 100, smallFile, 64},
		"few":            {4, 3, smallFile, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &plan{}
				for range c.files {
					p.jobs = append(p.jobs, &job{route: route{from: &local{}, to: &local{}}, size: c.size})
				}
				a := newApp("get", options{jobs: c.jobs, quiet: true}, cli.Streams{Out: io.Discard, Err: io.Discard})
				var begun atomic.Int32
				proceed, ended := make(chan struct{}), make(chan error, 1)
				go func() {
					ended <- a.each(t.Context(), p, "copy", func(context.Context, *job, func(int64)) error {
						begun.Add(1)
						<-proceed
						return nil
					})
				}()
				synctest.Wait()
				if n := begun.Load(); n != c.want {
					t.Errorf("%d files at a time, want %d", n, c.want)
				}
				close(proceed)
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
