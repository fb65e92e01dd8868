package smb_test

import (
	"bytes"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// sparseFile makes a file of that size which has data in the ranges alone, and returns its content.
func sparseFile(t *testing.T, share *smb.Share, name string, size int64, data []smb.Range) []byte {
	t.Helper()
	f, err := share.Create(name)
	must(t, err)
	defer f.Close()
	must(t, f.SetSparse())
	must(t, f.Truncate(size))
	content := make([]byte, size)
	for _, r := range data {
		copy(content[r.Offset:], random(int(r.Length)))
	}
	_, err = f.ReadRangesFrom(bytes.NewReader(content), data) // many requests in flight
	must(t, err)
	return content
}

// rangesOf is what the named file has allocated, according to the server.
func rangesOf(t *testing.T, share *smb.Share, name string) []smb.Range {
	t.Helper()
	f, err := share.Open(name)
	must(t, err)
	defer f.Close()
	fi, err := f.Stat()
	must(t, err)
	list, err := f.AllocatedRanges(0, fi.Size())
	must(t, err)
	return list
}

// layout is a sparse file: its size and data.
type layout struct {
	size int64
	data []smb.Range
}

// slow is whether t, of a mode, leaves a layout out: file systems take seconds to empty a file of so many ranges. Plain sessions of the usual form
// have them all, and so has each mode with TARN_LONG; TestManyRanges lists as many on a scripted server.
func (l layout) slow(t *testing.T) bool {
	return len(l.data) > 4096 && os.Getenv("TARN_LONG") == "" && (testing.Short() || path.Base(t.Name()) != rig.Plain.Name())
}

// layouts are sparse files.
func layouts() map[string]layout {
	const page = 4 << 10
	every := func(n int) (list []smb.Range) {
		for i := range n {
			list = append(list, smb.Range{Offset: int64(2*i) * page, Length: page})
		}
		return list
	}
	return map[string]layout{
		"in the last page":       {201*page + 55, append(every(100), smb.Range{Offset: 200 * page, Length: page + 55})},
		"hole at the end":        {1<<20 + 123, []smb.Range{{Offset: 0, Length: 64 << 10}}},
		"hole at the start":      {1<<20 + 123, []smb.Range{{Offset: 512 << 10, Length: 512<<10 + 123}}},
		"only a hole":            {3 << 20, nil},
		"one page":               {8 << 20, []smb.Range{{Offset: 4 << 20, Length: page}}},
		"every second page":      {200 * page, every(100)},
		"more than one answer":   {2 * 4200 * page, every(4200)},
		"more than one request":  {24 << 20, []smb.Range{{Offset: 1 << 20, Length: 17 << 20}, {Offset: 20 << 20, Length: 2 << 20}}},
		"no hole":                {100_000, []smb.Range{{Offset: 0, Length: 100_000}}},
		"shorter than the block": {100, nil},
	}
}

// TestCopyKeepsHoles has the server copy sparse files: to new names, and over files that are shorter and longer. The copies have
// the same bytes and the same holes.
func TestCopyKeepsHoles(t *testing.T) {
	eachMode(t, rig.Config{}, func(t *testing.T, srv *rig.Server) {
		share := mount(t, srv, smb.Dialer{})
		for name, l := range layouts() {
			if l.slow(t) {
				continue
			}
			t.Run(name, func(t *testing.T) {
				want := sparseFile(t, share, "from", l.size, l.data)
				ranges := rangesOf(t, share, "from")
				if !slices.Equal(ranges, l.data) {
					t.Fatalf("the source has %.200v, want %.200v", ranges, l.data)
				}
				for to, before := range map[string]int{"new": -1, "short": 10_000, "long": int(l.size) + 100_000} {
					os.Remove(filepath.Join(srv.Dir, to))
					if before >= 0 {
						must(t, share.WriteFile(to, random(before), 0o666))
					}
					n, err := share.Copy(to, "from")
					if n != l.size || err != nil || !bytes.Equal(onDisk(t, srv, to), want) {
						t.Errorf("%s: Copy returned %d, %v; equal: %v", to, n, err, bytes.Equal(onDisk(t, srv, to), want))
					}
					if got := rangesOf(t, share, to); !slices.Equal(got, ranges) {
						t.Errorf("%s: %d allocated ranges, want %d: %.200v", to, len(got), len(ranges), got)
					}
				}
				from, err := share.Open("from")
				must(t, err)
				defer from.Close()
				to, err := share.Create("open")
				must(t, err)
				defer to.Close()
				if n, err := to.CopyFrom(from); n != l.size || err != nil || !bytes.Equal(onDisk(t, srv, "open"), want) {
					t.Errorf("CopyFrom: %d, %v", n, err)
				}
				if got := rangesOf(t, share, "open"); !slices.Equal(got, ranges) {
					t.Errorf("CopyFrom: %d allocated ranges, want %d", len(got), len(ranges))
				}
				if _, err := to.CopyFrom(to); !errors.Is(err, smb.ErrSameFile) {
					t.Errorf("CopyFrom of the file itself: %v", err)
				}
			})
		}
	})
}

// sparseDisk is a memoryDisk that counts what is copied.
type sparseDisk struct {
	memoryDisk
	refuses func(m *script.Message) proto.Status // 0: nothing
	listing func()                               // changes the disk before ranges are listed
	listed  func()                               // changes the disk after that
	copied  int                                  // bytes that COPYCHUNK has copied
}

func (d *sparseDisk) change(how func()) {
	if how != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		how()
	}
}

func (d *sparseDisk) answer(c *script.Conn, m *script.Message) bool {
	if d.refuses != nil {
		if status := d.refuses(m); status != 0 {
			c.Refuse(m, status)
			return true
		}
	}
	if m.Command != proto.CommandIoctl {
		return d.hook(c, m)
	}
	switch le.Uint32(m.Body[4:]) {
	case proto.FsctlQueryAllocatedRanges:
		d.change(d.listing)
		answered := d.hook(c, m)
		d.change(d.listed)
		return answered
	case proto.FsctlCopyChunkWrite:
		in := m.Body[le.Uint32(m.Body[24:])-proto.HeaderSize:][:le.Uint32(m.Body[28:])]
		for x := in[32:]; len(x) >= 24; x = x[24:] {
			d.copied += int(le.Uint32(x[16:]))
		}
	}
	return d.hook(c, m)
}

// control returns a function that refuses one control code.
func control(code uint32, status proto.Status) func(*script.Message) proto.Status {
	return func(m *script.Message) proto.Status {
		if m.Command == proto.CommandIoctl && le.Uint32(m.Body[4:]) == code {
			return status
		}
		return 0
	}
}

// holed is a file of 40 blocks, of which every third is data.
func holed() []byte {
	b := make([]byte, 40*sparseBlock+100)
	for at := 0; at < len(b); at += 3 * sparseBlock {
		copy(b[at:], random(min(sparseBlock, len(b)-at)))
	}
	return b
}

// TestCopyHolesRefused copies a sparse file on servers that refuse one of the requests for it. Without those for holes the copy has
// the same bytes, and no holes; without those for copying the target keeps its content.
func TestCopyHolesRefused(t *testing.T) {
	want, old := holed(), random(50*sparseBlock)
	setsEnd := func(m *script.Message) bool {
		return m.Command == proto.CommandSetInfo && proto.InfoClass(m.Body[3]) == proto.ClassEndOfFile
	}
	for _, kind := range kinds() {
		for _, c := range []struct {
			name    string
			refuses func(*script.Message) proto.Status
			err     error // of the copies
		}{
			{"nothing", nil, nil},
			{"ranges", control(proto.FsctlQueryAllocatedRanges, proto.StatusNotSupported), nil},
			{"ranges, invalid", control(proto.FsctlQueryAllocatedRanges, proto.StatusInvalidDeviceRequest), nil},
			{"ranges, denied", control(proto.FsctlQueryAllocatedRanges, proto.StatusAccessDenied), nil},
			{"sparse", control(proto.FsctlSetSparse, proto.StatusNotSupported), nil},
			{"sparse, denied", control(proto.FsctlSetSparse, proto.StatusAccessDenied), nil},
			{"key", control(proto.FsctlRequestResumeKey, proto.StatusNotSupported), smb.ErrUnsupported},
			{"copy", control(proto.FsctlCopyChunkWrite, proto.StatusInvalidDeviceRequest), smb.ErrUnsupported},
			{"empty", func(m *script.Message) proto.Status {
				if setsEnd(m) && le.Uint64(m.Body[32:]) == 0 {
					return proto.StatusAccessDenied
				}
				return 0
			}, nil},
		} {
			t.Run(kind+"/"+c.name, func(t *testing.T) {
				d := &sparseDisk{refuses: c.refuses}
				d.reset(map[string][]byte{"file": nil, "from": want, "old": old})
				d.nodes["from"].sparse = true
				s := protections()[kind]
				s.Hook = d.answer
				f, err := scripted(t, s, smb.Dialer{})
				must(t, err)
				for _, to := range []string{"new", "old"} {
					d.copied = 0
					n, err := f.Share().Copy(to, "from")
					if !errors.Is(err, c.err) || err == nil && n != int64(len(want)) {
						t.Errorf("%s: %d, %v", to, n, err)
					}
					got, _ := d.content(to)
					expected := want
					if c.err != nil {
						expected = map[string][]byte{"old": old}[to]
					}
					if !bytes.Equal(got, expected) {
						t.Errorf("%s has %d other bytes than %d", to, len(got), len(expected))
					}
					data := 0
					for at := 0; at < len(want); at += 3 * sparseBlock {
						data += min(sparseBlock, len(want)-at)
					}
					if to == "new" && c.err == nil && (d.copied == data) != (c.refuses == nil || c.name == "empty") {
						t.Errorf("%d bytes were copied, %d are data", d.copied, data)
					}
				}
			})
		}
	}
}

// TestCopyHolesWhileChanging changes the source between the requests for its size and its holes, in ways that make the list
// of holes wrong: each byte of the copy must be one that the source had at some time.
func TestCopyHolesWhileChanging(t *testing.T) {
	for _, kind := range kinds() {
		for name, c := range map[string]struct {
			listing, listed func(n *memoryNode, later []byte)
		}{
			"written again": {
				listing: func(n *memoryNode, _ []byte) { n.truncate(sparseBlock) },
				listed:  func(n *memoryNode, later []byte) { n.put(0, later) },
			},
			"holes filled":  {listed: func(n *memoryNode, later []byte) { n.put(0, later) }},
			"holes punched": {listing: func(n *memoryNode, _ []byte) { clear(n.data[:20*sparseBlock]); n.changes++ }},
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				first := holed()
				later := random(len(first))
				d := &sparseDisk{}
				d.reset(map[string][]byte{"file": nil, "from": first})
				d.nodes["from"].sparse = true
				for hook, change := range map[*func()]func(*memoryNode, []byte){&d.listing: c.listing, &d.listed: c.listed} {
					if change != nil {
						*hook = func() { change(d.nodes["from"], later) }
					}
				}
				s := protections()[kind]
				s.Hook = d.answer
				f, err := scripted(t, s, smb.Dialer{})
				must(t, err)
				if _, err := f.Share().Copy("to", "from"); err != nil {
					t.Fatal(err)
				}
				got, _ := d.content("to")
				if len(got) != len(first) {
					t.Fatalf("%d bytes, want %d", len(got), len(first))
				}
				for i := range got {
					if was := got[i] == first[i] || got[i] == later[i] || c.listed == nil && got[i] == 0; !was {
						t.Fatalf("byte %d is %d; the source had %d, then %d", i, got[i], first[i], later[i])
					}
				}
			})
		}
	}
}
