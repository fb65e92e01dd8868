package doctor

import (
	"bytes"
	"compress/gzip"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"github.com/tarn-go/tarn/cmd/tarn/internal/fetch"
	"github.com/tarn-go/tarn/debug"
)

// maxProfile bounds a profile when it is unpacked: the address may be that of any server.
const maxProfile = 128 << 20

// errSource: a file is neither a program nor a profile.
var errSource = errors.New("neither a program built by Go nor a CPU, heap or allocs profile")

// program is what the sources say about one program.
type program struct {
	build    *buildinfo.BuildInfo
	linked   linked
	cpu      *profile.Profile
	heap     *profile.Profile
	snapshot *debug.Snapshot // of its debug page
}

// load adds a source.
func (p *program) load(ctx context.Context, source string, o options) error {
	if fetch.IsURL(source) {
		return p.loadURL(ctx, source, o)
	}
	if info, err := buildinfo.ReadFile(source); err == nil {
		if p.build != nil {
			return fmt.Errorf("%s: a second program", source)
		}
		p.build = info
		p.linked, err = linkedIn(source)
		return err
	}
	f, err := os.Open(source)
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxProfile))
	if err != nil {
		return err
	}
	if err := p.addProfile(data); err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	return nil
}

// loadURL profiles a running program, and reads its debug page if it has one where pprof's neighbours are.
func (p *program) loadURL(ctx context.Context, source string, o options) error {
	base, err := url.Parse(source)
	if err != nil || base.Host == "" {
		return fmt.Errorf("%s: %w", source, fetch.ErrURL)
	}
	if base.Path = strings.TrimSuffix(base.Path, "/"); !strings.HasSuffix(base.Path, "/debug/pprof") {
		base.Path += "/debug/pprof"
	}
	ctx, cancel := context.WithTimeout(ctx, o.length+30*time.Second)
	defer cancel()
	for _, part := range []string{"profile", "allocs"} {
		u := base.JoinPath(part)
		if part == "profile" {
			u.RawQuery = "seconds=" + strconv.Itoa(int(o.length.Seconds()))
		}
		data, err := fetch.Get(ctx, u.String(), o.header.Header)
		if errors.Is(err, fetch.ErrAnswer) {
			return fmt.Errorf("%w; a program with net/http/pprof serves it", err)
		}
		if err != nil {
			return err
		}
		if err := p.addProfile(data); err != nil {
			return fmt.Errorf("%s: %w", u, err)
		}
	}
	page := *base
	page.Path = path.Dir(base.Path) + "/tarn/"
	if s, err := fetch.Snapshot(ctx, page.String(), "live", o.header.Header); err == nil {
		p.snapshot = s
	}
	return nil
}

// addProfile adds a profile of the kinds that Go writes.
func (p *program) addProfile(data []byte) error {
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return fmt.Errorf("%w: %v", errSource, err)
		}
		data, err = io.ReadAll(io.LimitReader(z, maxProfile+1))
		if err != nil {
			return fmt.Errorf("%w: %v", errSource, err)
		}
		if len(data) > maxProfile {
			return fmt.Errorf("a profile of more than %d bytes", maxProfile)
		}
	}
	// Text that is no profile is read as one without samples.
	got, err := profile.ParseUncompressed(data)
	if err == nil {
		err = got.CheckValid() // ParseUncompressed does not
	}
	if err != nil {
		return fmt.Errorf("%w: %v", errSource, err)
	}
	switch {
	case value(got, "cpu") >= 0:
		return once(&p.cpu, got, "CPU")
	case value(got, "alloc_space") >= 0:
		return once(&p.heap, got, "heap")
	}
	return errSource
}

// linked is what a program has of net/http and h2http. The linker leaves out what the program cannot reach.
type linked struct {
	server bool // of net/http
	client bool // of net/http, for HTTP/2
	h2http bool // with a server or client of its own
}

// linkedIn looks for the names of functions, which every program built by Go has for its stacks.
func linkedIn(name string) (linked, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return linked{}, err
	}
	has := func(functions ...string) bool {
		return slices.ContainsFunc(functions, func(f string) bool { return bytes.Contains(data, []byte("\x00"+f+"\x00")) })
	}
	const ours = "github.com/tarn-go/tarn/h2http."
	return linked{
		server: has("net/http.(*Server).Serve"),
		client: has("net/http.(*http2Transport).RoundTripOpt", "net/http/internal/http2.(*Transport).RoundTripOpt", "golang.org/x/net/http2.(*Transport).RoundTripOpt"),
		h2http: has(ours+"ConfigureServer", ours+"ConfigureTransport", ours+"NewServer", ours+"(*Transport).RoundTrip"),
	}, nil
}

// once sets a profile that is not known yet.
func once(to **profile.Profile, got *profile.Profile, kind string) error {
	if *to != nil {
		return fmt.Errorf("a second %s profile", kind)
	}
	*to = got
	return nil
}

// value returns the index of a value of p's samples; -1: they have none of that type.
func value(p *profile.Profile, name string) int {
	for i, t := range p.SampleType {
		if t.Type == name {
			return i
		}
	}
	return -1
}
