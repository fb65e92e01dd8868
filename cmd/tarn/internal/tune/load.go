package tune

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/tarn-go/tarn/cmd/tarn/internal/fetch"
	"github.com/tarn-go/tarn/debug"
	"github.com/tarn-go/tarn/sizing"
)

// maxInput bounds a file, so that a device or an endless pipe ends.
const maxInput = 256 << 20

// input is one histogram to tune; trace is there when it came from a recording.
type input struct {
	name  string
	h     sizing.Histogram
	trace *sizing.Trace
}

// load reads the source: a trace, a snapshot or a histogram.
func load(ctx context.Context, o options, stdin io.Reader) ([]input, error) {
	if fetch.IsURL(o.source) {
		s, err := fetch.Snapshot(ctx, o.source, "json", o.header.Header)
		if err != nil {
			return nil, err
		}
		return pools(s, o.pool)
	}
	in := stdin
	if o.source != "-" {
		f, err := os.Open(o.source)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	limited := &io.LimitedReader{R: in, N: maxInput + 1}
	buffered := bufio.NewReader(limited)
	inputs, err := decode(buffered, o)
	if err == nil && limited.N <= 0 {
		err = fmt.Errorf("%w: more than %d bytes", sizing.ErrTooLarge, maxInput)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.source, err)
	}
	return inputs, nil
}

// decode distinguishes a trace, compressed or not, a snapshot and a histogram by how they begin.
func decode(in *bufio.Reader, o options) ([]input, error) {
	head, _ := in.Peek(10)
	if bytes.HasPrefix(head, []byte{0x1f, 0x8b}) || bytes.HasPrefix(head, []byte("tarn-trace")) {
		t, err := sizing.ReadTrace(in)
		if err != nil {
			return nil, err
		}
		return []input{{name: filepath.Base(o.source), h: t.Histogram(), trace: &t}}, nil
	}
	data, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	if s, err := fetch.Decode(data); err == nil {
		return pools(s, o.pool)
	}
	h, err := sizing.Parse(data)
	if err != nil {
		return nil, err
	}
	name := h.Name
	if name == "" {
		name = filepath.Base(o.source)
	}
	return []input{{name: name, h: h}}, nil
}

// pools picks a snapshot's pools: the one named, or all.
func pools(s *debug.Snapshot, name string) ([]input, error) {
	var found []input
	var names []string
	for _, p := range s.Pools {
		names = append(names, p.Name)
		if p.Histogram != nil && (name == "" || name == p.Name) {
			found = append(found, input{name: p.Name, h: *p.Histogram})
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no pool %q with a histogram; there are %q", name, names)
	}
	return found, nil
}
