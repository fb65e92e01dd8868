package smb

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
	client "github.com/tarn-go/tarn/smb"
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

// TestRemovedAtOnce counts how many entries sync -delete removes at a time, and how many it tries after the server is lost.
func TestRemovedAtOnce(t *testing.T) {
	for _, end := range []error{nil, errors.New("refused"), client.ErrConnLost} {
		synctest.Test(t, func(t *testing.T) {
			target := &slowTree{proceed: make(chan struct{}), err: end}
			p := &plan{}
			for range 200 {
				p.extra = append(p.extra, extra{tree: target, name: "x"})
			}
			a := newApp("sync", options{quiet: true}, cli.Streams{Out: io.Discard, Err: io.Discard})
			a.waits = nil
			ended := make(chan error, 1)
			go func() { ended <- a.removeExtra(t.Context(), p) }()
			synctest.Wait()
			if n := target.begun.Load(); n != removedAtOnce {
				t.Errorf("%d at a time", n)
			}
			close(target.proceed)
			err := <-ended
			if tried := target.begun.Load(); (tried == 200) == lost(end) || (err == nil) != (end == nil) {
				t.Errorf("%v: %v, %d tried", end, err, tried)
			}
		})
	}
}

// slowTree is a tree whose Remove waits for proceed.
type slowTree struct {
	tree
	proceed chan struct{}
	begun   atomic.Int32
	err     error
}

func (s *slowTree) Remove(string) error {
	s.begun.Add(1)
	<-s.proceed
	return s.err
}
