package smb_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/tarntest"
)

// faultyShare is a share on a memoryDisk, over connections that a test disturbs.
type faultyShare struct {
	t     *testing.T
	ctx   context.Context // of the calls that are disturbed
	disk  *memoryDisk
	share *smb.Share
	link  atomic.Pointer[faultnet.Link] // the last that was dialled
	want  []byte                        // content of the file "big"
	holed []byte                        // content of the file "sparse"
	kind  faultnet.Kind
}

func newFaultyShare(t *testing.T, protection string, kind faultnet.Kind) *faultyShare {
	e := &faultyShare{t: t, ctx: t.Context(), disk: new(memoryDisk), want: bytes.Repeat([]byte("0123456789abcdefghijk"), 3200), holed: holed(), kind: kind}
	e.disk.reset(nil)
	l := faultnet.Listen(t, kind)
	l.Faults(func(link *faultnet.Link) {
		if before := e.link.Swap(link); before != nil {
			before.Break(faultnet.RST) // the server may be waiting to write to it
		}
	})
	s := protections()[protection]
	s.Hook = e.disk.hook
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go s.Serve(nc)
		}
	}()
	d := smb.Dialer{Initiator: fixedKey{}, Pool: tarntest.NewPool(t), DialFunc: l.Dial}
	d.Limits.KeepAlive = time.Second
	if !e.fakeTime() {
		d.Limits.KeepAlive = -1
	}
	d.Limits.MaxRead, d.Limits.MaxWrite = 16<<10, 16<<10 // several requests for a file
	sess, err := d.Dial(t.Context(), "scripted")
	must(t, err)
	e.share, err = sess.Mount(t.Context(), "share")
	must(t, err)
	e.begin()
	_, err = e.share.ReadDir("dir") // the first listing learns that the server reports no ids: later ones have fewer bytes
	must(t, err)
	t.Cleanup(func() { sess.Close(); l.Close() })
	return e
}

// fakeTime reports whether the share is used in a bubble of package synctest, which sockets do not work in.
func (e *faultyShare) fakeTime() bool { return e.kind != faultnet.TCP }

// wait returns when no bytes are in transit any more, where time is fake.
func (e *faultyShare) wait() {
	if e.fakeTime() {
		synctest.Wait()
	}
}

// begin brings the disk to its initial state.
func (e *faultyShare) begin() {
	e.disk.reset(map[string][]byte{"big": e.want, "small": e.want[:5000], "small:stream": nil, "sparse": e.holed})
	e.disk.nodes["sparse"].sparse = true
}

// same is an error when got is not what is to be read.
func same(got, want []byte, err error) error {
	if err == nil && !bytes.Equal(got, want) {
		err = fmt.Errorf("%d wrong bytes, where %d are to be read", len(got), len(want))
	}
	return err
}

// written is an error when the named file is not as it is to be written.
func (e *faultyShare) written(name string, want []byte, err error) error {
	if err == nil {
		got, _ := e.disk.content(name)
		if !bytes.Equal(got, want) {
			err = fmt.Errorf("%d wrong bytes in %s, where %d are to be written", len(got), name, len(want))
		}
	}
	return err
}

// exists is an error when the named file does not exist.
func (e *faultyShare) exists(name string, err error) error {
	if _, ok := e.disk.content(name); err == nil && !ok {
		err = fmt.Errorf("%s does not exist", name)
	}
	return err
}

// isBig is an error for a description of another file than "big".
func (e *faultyShare) isBig(fi fs.FileInfo) error {
	if fi.Size() != int64(len(e.want)) {
		return fmt.Errorf("size %d", fi.Size())
	}
	return nil
}

// repetition says whether a call is repeated when its connection is lost.
type repetition uint8

const (
	repeated repetition = iota
	notRepeated
)

// eachCall is a call of Share or File. make prepares the call, without faults, and returns it; the call returns an
// error also when its result is wrong.
type eachCall struct {
	name string
	repetition
	make func(e *faultyShare) func() error
}

// onShare is a call of Share.
func onShare(name string, r repetition, f func(e *faultyShare, s *smb.Share) error) eachCall {
	return eachCall{name, r, func(e *faultyShare) func() error {
		return func() error { return f(e, e.share.WithContext(e.ctx)) }
	}}
}

// onFile is a call of a File that was opened for reading and writing before.
func onFile(name string, r repetition, f func(e *faultyShare, f *smb.File) error) eachCall {
	return eachCall{"File." + name, r, func(e *faultyShare) func() error {
		file, err := e.share.OpenFile("big", os.O_RDWR, 0)
		must(e.t, err)
		return func() error { return f(e, file.WithContext(e.ctx)) }
	}}
}

// onDir is a call of a File that is an open directory.
func onDir(name string, r repetition, f func(e *faultyShare, f *smb.File) error) eachCall {
	return eachCall{"File." + name, r, func(e *faultyShare) func() error {
		dir, err := e.share.Open("dir")
		must(e.t, err)
		return func() error { return f(e, dir.WithContext(e.ctx)) }
	}}
}

// checkEntries is an error when list are not the entries of dir.
func checkEntries[E interface{ Name() string }](list []E, err error) error {
	var got []string
	for _, x := range list {
		got = append(got, x.Name())
	}
	return checkNames(got, err)
}

func checkNames(got []string, err error) error {
	if err == nil && !slices.Equal(got, []string{"a", "b", "c"}) {
		err = fmt.Errorf("listed %q", got)
	}
	return err
}

// eachCalls are the methods of Share and File that use the connection.
func eachCalls() []eachCall {
	openAndClose := func(open func(s *smb.Share) (*smb.File, error)) func(e *faultyShare, s *smb.Share) error {
		return func(e *faultyShare, s *smb.Share) error {
			f, err := open(s)
			if err == nil {
				e.t.Cleanup(func() { f.Close() })
			}
			return err
		}
	}
	return []eachCall{
		onShare("Open", repeated, openAndClose(func(s *smb.Share) (*smb.File, error) { return s.Open("big") })),
		onShare("Create", repeated, openAndClose(func(s *smb.Share) (*smb.File, error) { return s.Create("new") })),
		onShare("OpenFile", repeated, openAndClose(func(s *smb.Share) (*smb.File, error) { return s.OpenFile("big", os.O_RDWR, 0) })),
		onShare("OpenFile, O_EXCL", notRepeated, openAndClose(func(s *smb.Share) (*smb.File, error) {
			return s.OpenFile("new", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		})),
		onShare("OpenStream", repeated, openAndClose(func(s *smb.Share) (*smb.File, error) {
			return s.OpenStream("big", "stream", os.O_RDWR|os.O_CREATE, 0o666)
		})),
		onShare("RemoveStream", notRepeated, func(_ *faultyShare, s *smb.Share) error { return s.RemoveStream("small", "stream") }),
		onShare("Stat", repeated, func(e *faultyShare, s *smb.Share) error {
			fi, err := s.Stat("big")
			if err == nil && fi.Size() != int64(len(e.want)) {
				err = fmt.Errorf("size %d", fi.Size())
			}
			return err
		}),
		onShare("Lstat", repeated, func(_ *faultyShare, s *smb.Share) error { _, err := s.Lstat("big"); return err }),
		onShare("ReadFile", repeated, func(e *faultyShare, s *smb.Share) error {
			b, err := s.ReadFile("small")
			return same(b, e.want[:5000], err)
		}),
		onShare("ReadFile of 67 KB", repeated, func(e *faultyShare, s *smb.Share) error { b, err := s.ReadFile("big"); return same(b, e.want, err) }),
		onShare("ReadFileInfo", repeated, func(e *faultyShare, s *smb.Share) error {
			b, _, err := s.ReadFileInfo("small")
			return same(b, e.want[:5000], err)
		}),
		onShare("WriteFile", repeated, func(e *faultyShare, s *smb.Share) error {
			return e.written("new", e.want[:5000], s.WriteFile("new", e.want[:5000], 0o666))
		}),
		onShare("WriteFile of 67 KB", repeated, func(e *faultyShare, s *smb.Share) error {
			return e.written("new", e.want, s.WriteFile("new", e.want, 0o666))
		}),
		onShare("WriteFile that cuts", repeated, func(e *faultyShare, s *smb.Share) error {
			return e.written("big", e.want[:5000], s.WriteFile("big", e.want[:5000], 0o666))
		}),
		onShare("O_TRUNC", repeated, func(e *faultyShare, s *smb.Share) error {
			f, err := s.OpenFile("big", os.O_WRONLY|os.O_TRUNC, 0)
			if err == nil {
				f.Close()
			}
			return e.written("big", nil, err)
		}),
		onShare("WriteNewFile", notRepeated, func(e *faultyShare, s *smb.Share) error {
			return e.written("new", e.want[:5000], s.WriteNewFile("new", e.want[:5000], 0o666, time.Unix(1e9, 0)))
		}),
		onShare("ReplaceFile", notRepeated, func(e *faultyShare, s *smb.Share) error {
			return e.written("small", e.want[:500], s.ReplaceFile("small", e.want[:500], 0o666, time.Unix(1e9, 0)))
		}),
		onShare("ReplaceFile of 67 KB", notRepeated, func(e *faultyShare, s *smb.Share) error {
			return e.written("small", e.want, s.ReplaceFile("small", e.want, 0o666, time.Unix(1e9, 0)))
		}),
		onShare("Copy", repeated, func(e *faultyShare, s *smb.Share) error {
			_, err := s.Copy("small", "big")
			return e.written("small", e.want, err)
		}),
		onShare("Copy of a sparse file", repeated, func(e *faultyShare, s *smb.Share) error {
			_, err := s.Copy("small", "sparse")
			return e.written("small", e.holed, err)
		}),
		onShare("Truncate", repeated, func(e *faultyShare, s *smb.Share) error {
			return e.written("big", e.want[:777], s.Truncate("big", 777))
		}),
		onShare("Chtimes", repeated, func(_ *faultyShare, s *smb.Share) error { return s.Chtimes("big", time.Time{}, time.Unix(1e9, 0)) }),
		onShare("Chmod", repeated, func(_ *faultyShare, s *smb.Share) error { return s.Chmod("big", 0o444) }),
		onShare("Mkdir", notRepeated, func(e *faultyShare, s *smb.Share) error { return e.exists("new", s.Mkdir("new", 0o777)) }),
		onShare("MkdirAll", notRepeated, func(e *faultyShare, s *smb.Share) error { return e.exists(`new\new`, s.MkdirAll("new/new", 0o777)) }),
		onShare("Remove", notRepeated, func(e *faultyShare, s *smb.Share) error { return s.Remove("small") }),
		onShare("RemoveIf", notRepeated, func(_ *faultyShare, s *smb.Share) error {
			return s.RemoveIf("small", func(fi fs.FileInfo) error {
				if fi.Size() != 5000 {
					return fmt.Errorf("size %d", fi.Size())
				}
				return nil
			})
		}),
		onShare("LongName", repeated, func(_ *faultyShare, s *smb.Share) error {
			long, err := s.LongName("small")
			if err == nil && long != "SMALL" {
				err = errors.New(long)
			}
			return err
		}),
		onShare("RemoveAll", notRepeated, func(e *faultyShare, s *smb.Share) error { return s.RemoveAll("dir") }),
		onShare("Rename", notRepeated, func(e *faultyShare, s *smb.Share) error {
			return e.written("small", e.want, s.Rename("big", "small"))
		}),
		onShare("Link", notRepeated, func(e *faultyShare, s *smb.Share) error {
			return e.written("new", e.want, s.Link("big", "new"))
		}),
		onShare("RenameNoReplace", notRepeated, func(e *faultyShare, s *smb.Share) error {
			return e.written("new", e.want, s.RenameNoReplace("big", "new"))
		}),
		onShare("RenameIf", notRepeated, func(e *faultyShare, s *smb.Share) error {
			return e.written("small", e.want, s.RenameIf("big", "small", e.isBig))
		}),
		onShare("RenameNoReplaceIf", notRepeated, func(e *faultyShare, s *smb.Share) error {
			return e.written("new", e.want, s.RenameNoReplaceIf("big", "new", e.isBig))
		}),
		onShare("OpenAttributes", repeated, openAndClose(func(s *smb.Share) (*smb.File, error) { return s.OpenAttributes("big") })),
		onShare("Symlink", notRepeated, func(_ *faultyShare, s *smb.Share) error { return s.Symlink("target", "new") }),
		onShare("SymlinkTimes", notRepeated, func(e *faultyShare, s *smb.Share) error {
			return e.exists("new", s.SymlinkTimes("target", "new", time.Time{}, time.Unix(1e9, 0)))
		}),
		onShare("LchtimesIf", repeated, func(e *faultyShare, s *smb.Share) error {
			return s.LchtimesIf("big", time.Time{}, time.Unix(1e9, 0), e.isBig)
		}),
		onShare("Readlink", repeated, func(_ *faultyShare, s *smb.Share) error {
			to, err := s.Readlink("small")
			if err == nil && to != "target" {
				err = errors.New(to)
			}
			return err
		}),
		onShare("ReadDir", repeated, func(_ *faultyShare, s *smb.Share) error { return checkEntries(s.ReadDir("dir")) }),
		onShare("Entries", repeated, func(_ *faultyShare, s *smb.Share) error {
			var got []string
			for x, err := range s.Entries("dir") {
				if err != nil {
					return err
				}
				got = append(got, x.Name())
			}
			return checkNames(got, nil)
		}),
		onShare("WalkDir", repeated, func(_ *faultyShare, s *smb.Share) error {
			var got []string
			err := s.WalkDir("dir", func(_ string, d fs.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					got = append(got, d.Name())
				}
				return err
			})
			return checkNames(got, err)
		}),
		onShare("Glob", repeated, func(_ *faultyShare, s *smb.Share) error {
			got, err := s.Glob("dir/*")
			if err == nil && !slices.Equal(got, []string{"dir/a", "dir/b", "dir/c"}) {
				err = fmt.Errorf("%q", got)
			}
			return err
		}),
		onShare("FS", repeated, func(e *faultyShare, s *smb.Share) error {
			b, err := fs.ReadFile(s.FS("."), "big")
			return same(b, e.want, err)
		}),
		onShare("Statfs", repeated, func(_ *faultyShare, s *smb.Share) error { _, err := s.Statfs(); return err }),
		onShare("Snapshots", repeated, func(_ *faultyShare, s *smb.Share) error { _, err := s.Snapshots(); return err }),
		onShare("Streams", repeated, func(_ *faultyShare, s *smb.Share) error {
			list, err := s.Streams("big")
			if err == nil && (len(list) != 1 || list[0].Name != "stream") {
				err = fmt.Errorf("%v", list)
			}
			return err
		}),
		onShare("ExtendedAttributes", repeated, func(_ *faultyShare, s *smb.Share) error {
			all, err := s.ExtendedAttributes("big")
			if err == nil && string(all["key"]) != "value" {
				err = fmt.Errorf("%v", all)
			}
			return err
		}),
		onShare("SetExtendedAttribute", repeated, func(_ *faultyShare, s *smb.Share) error { return s.SetExtendedAttribute("big", "key", []byte("value")) }),
		onShare("SecurityDescriptor", repeated, func(_ *faultyShare, s *smb.Share) error {
			b, err := s.SecurityDescriptor("big", smb.OwnerSecurity)
			if err == nil && len(b) != 20 {
				err = fmt.Errorf("%x", b)
			}
			return err
		}),
		onShare("SetSecurityDescriptor", repeated, func(_ *faultyShare, s *smb.Share) error {
			return s.SetSecurityDescriptor("big", smb.OwnerSecurity, make([]byte, 20))
		}),
		onShare("Watch, Next", notRepeated, func(e *faultyShare, s *smb.Share) error {
			w, err := s.Watch("dir", smb.WatchAll)
			if err != nil {
				return err
			}
			defer w.Close()
			events, err := w.Next(e.ctx)
			if err == nil && (len(events) != 1 || events[0].Name != "new") {
				err = fmt.Errorf("%v", events)
			}
			return err
		}),
		onShare("Unmount", notRepeated, func(e *faultyShare, s *smb.Share) error {
			other, err := s.Session().Mount(e.ctx, "other")
			if err != nil {
				return err
			}
			return other.WithContext(e.ctx).Unmount()
		}),

		onFile("Read", repeated, func(e *faultyShare, f *smb.File) error {
			b, err := io.ReadAll(struct{ io.Reader }{f})
			return same(b, e.want, err)
		}),
		onFile("ReadAt", repeated, func(e *faultyShare, f *smb.File) error {
			p := make([]byte, 60_000)
			_, err := f.ReadAt(p, 1234)
			return same(p, e.want[1234:][:len(p)], err)
		}),
		onFile("ReadBuffer", repeated, func(e *faultyShare, f *smb.File) error {
			b, err := f.ReadBuffer(e.ctx, 1234, 10_000)
			defer b.Free()
			return same(b.Bytes(), e.want[1234:][:10_000], err)
		}),
		onFile("WriteTo", repeated, func(e *faultyShare, f *smb.File) error {
			var b bytes.Buffer
			_, err := f.WriteTo(&b)
			return same(b.Bytes(), e.want, err)
		}),
		onFile("Write", repeated, func(e *faultyShare, f *smb.File) error {
			_, err := f.Write(e.want[7:])
			return e.written("big", slices.Concat(e.want[7:], e.want[len(e.want)-7:]), err)
		}),
		onFile("WriteAt", repeated, func(e *faultyShare, f *smb.File) error {
			_, err := f.WriteAt(e.want, 5)
			return e.written("big", slices.Concat(e.want[:5], e.want), err)
		}),
		onFile("ReadFrom", repeated, func(e *faultyShare, f *smb.File) error {
			_, err := f.ReadFrom(struct{ io.Reader }{bytes.NewReader(e.want[7:])})
			return e.written("big", slices.Concat(e.want[7:], e.want[len(e.want)-7:]), err)
		}),
		onFile("ReadRangesFrom", repeated, func(e *faultyShare, f *smb.File) error {
			all := []smb.Range{{Length: 7}, {Offset: 100, Length: int64(len(e.want)) - 100}}
			_, err := f.ReadRangesFrom(bytes.NewReader(e.want), all)
			return e.written("big", e.want, err)
		}),
		onFile("WriteRangesTo", repeated, func(e *faultyShare, f *smb.File) error {
			got := make(atOffsets, len(e.want))
			copy(got, e.want[:100])
			_, err := f.WriteRangesTo(got, []smb.Range{{Length: 7}, {Offset: 100, Length: int64(len(e.want)) - 100}})
			return same(got, e.want, err)
		}),
		onFile("Stat", repeated, func(_ *faultyShare, f *smb.File) error { _, err := f.Stat(); return err }),
		onFile("Seek", repeated, func(e *faultyShare, f *smb.File) error {
			n, err := f.Seek(0, io.SeekEnd)
			if err == nil && n != int64(len(e.want)) {
				err = fmt.Errorf("at %d", n)
			}
			return err
		}),
		onFile("Sync", repeated, func(_ *faultyShare, f *smb.File) error { return f.Sync() }),
		onFile("Truncate", repeated, func(e *faultyShare, f *smb.File) error { return e.written("big", e.want[:777], f.Truncate(777)) }),
		onFile("Chtimes", repeated, func(_ *faultyShare, f *smb.File) error { return f.Chtimes(time.Time{}, time.Unix(1e9, 0)) }),
		onFile("Chmod", repeated, func(_ *faultyShare, f *smb.File) error { return f.Chmod(0o444) }),
		onFile("SetAttributes", repeated, func(e *faultyShare, f *smb.File) error {
			made := time.Unix(1e9, 0)
			if err := f.SetAttributes(made, 0x12); err != nil {
				return err
			}
			fi, err := f.Stat()
			if err == nil && (!fi.Sys().(*smb.FileStat).CreationTime.Equal(made) || fi.Sys().(*smb.FileStat).FileAttributes != 2) {
				err = fmt.Errorf("%+v", fi.Sys())
			}
			return err
		}),
		onFile("Remove", notRepeated, func(_ *faultyShare, f *smb.File) error { return f.Remove() }),
		onFile("ID", repeated, func(_ *faultyShare, f *smb.File) error { _, err := f.ID(); return err }),
		onFile("SetSparse", repeated, func(_ *faultyShare, f *smb.File) error { return f.SetSparse() }),
		onFile("PunchHole", repeated, func(e *faultyShare, f *smb.File) error {
			return e.written("big", slices.Concat(make([]byte, 1000), e.want[1000:]), f.PunchHole(0, 1000))
		}),
		onFile("AllocatedRanges", repeated, func(e *faultyShare, f *smb.File) error {
			list, err := f.AllocatedRanges(0, 1000)
			if err == nil && (len(list) != 1 || list[0].Length != 1000) {
				err = fmt.Errorf("%v", list)
			}
			return err
		}),
		onFile("Lock", notRepeated, func(_ *faultyShare, f *smb.File) error { return f.Lock(0, 1, smb.LockExclusive) }),
		onFile("TryLock", notRepeated, func(_ *faultyShare, f *smb.File) error { return f.TryLock(0, 1, smb.LockExclusive) }),
		onFile("Unlock", notRepeated, func(_ *faultyShare, f *smb.File) error { return f.Unlock(0, 1) }),
		onFile("Close", repeated, func(_ *faultyShare, f *smb.File) error { return f.Close() }),
		{"File.CopyRange", repeated, func(e *faultyShare) func() error {
			from, err := e.share.Open("big")
			must(e.t, err)
			to, err := e.share.OpenFile("small", os.O_RDWR, 0)
			must(e.t, err)
			return func() error {
				_, err := to.WithContext(e.ctx).CopyRange(from, 0, 0, int64(len(e.want)))
				return e.written("small", e.want, err)
			}
		}},
		{"File.CopyFrom", repeated, func(e *faultyShare) func() error {
			from, err := e.share.Open("sparse")
			must(e.t, err)
			to, err := e.share.OpenFile("small", os.O_RDWR, 0)
			must(e.t, err)
			return func() error {
				_, err := to.WithContext(e.ctx).CopyFrom(from)
				return e.written("small", e.holed, err)
			}
		}},
		onDir("ReadDir", repeated, func(_ *faultyShare, f *smb.File) error { return checkEntries(f.ReadDir(-1)) }),
		onDir("Readdir", repeated, func(_ *faultyShare, f *smb.File) error { return checkEntries(f.Readdir(-1)) }),
		onDir("Readdirnames", repeated, func(_ *faultyShare, f *smb.File) error { return checkNames(f.Readdirnames(-1)) }),
		onDir("Stat of a directory", repeated, func(_ *faultyShare, f *smb.File) error { _, err := f.Stat(); return err }),
	}
}

// disturbance is what happens to the network during a call.
type disturbance uint8

const (
	endsByFIN disturbance = iota
	endsByRST
	stallsForGood // until the keep-alive closes the connection
	stallsLonger  // than the context of the call allows
	isCancelled   // when the network stalls, which then ends by RST
)

func (d disturbance) String() string {
	return [...]string{"FIN", "RST", "stall", "stall beyond the context", "stall and cancellation"}[d]
}

// place is a point in the bytes of a call at which it is disturbed.
type place struct {
	way
	bytes int64
}

// TestEachCall loses and stalls the connection during every call of Share and File: while its request is sent, and
// while the reply arrives. What is repeated succeeds, with the right bytes; other calls succeed or fail with ErrConnLost.
// Each ends in a bounded time, after which the session can be used, and every buffer is freed. Each call is disturbed in
// each way at each place, in a plain, a signed or an encrypted session; with TARN_LONG=1 in all of them.
func TestEachCall(t *testing.T) {
	for i, protection := range kinds() {
		t.Run(protection, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newFaultyShare(t, protection, faultnet.Memory)
				for j, c := range eachCalls() {
					e.disturb(c, i+j)
				}
			})
		})
	}
}

// TestEachCallOverTCP does the same over sockets, where time is not fake: a stall is not left to the keep-alive, but the call
// is cancelled and then the connection is lost. Each call meets each disturbance in one of the modes.
func TestEachCallOverTCP(t *testing.T) {
	for i, protection := range kinds() {
		t.Run(protection, func(t *testing.T) {
			e := newFaultyShare(t, protection, faultnet.TCP)
			for j, c := range eachCalls() {
				// At the first byte of what comes next, or a few bytes on: more may still be on its way for the
				// calls before.
				at := [...]place{{toServer, 1}, {toClient, 1}, {toServer, 40}, {toClient, 40}}[j%4]
				e.disturbAt(c, [...]disturbance{endsByFIN, endsByRST, isCancelled}[(i+j)%3], at)
			}
		})
	}
}

// TestEachCallWithoutDurableHandles does the same with calls of Share on a server that grants no durable handle: files that such a call
// opens are lost with the connection, and it opens them again.
func TestEachCallWithoutDurableHandles(t *testing.T) {
	for i, protection := range kinds() {
		t.Run(protection, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newFaultyShare(t, protection, faultnet.Memory)
				e.disk.undurable = true
				for j, c := range eachCalls() {
					if !strings.HasPrefix(c.name, "File.") {
						e.disturb(c, i+j)
					}
				}
			})
		})
	}
}

// disturb runs a call without a fault and then with each, at one of the places or, with TARN_LONG=1, at all.
func (e *faultyShare) disturb(c eachCall, turn int) {
	e.begin()
	call := c.make(e)
	e.wait() // the reply before is counted a moment after it has arrived
	link := e.link.Load()
	out, in := link.ToServer.Passed(), link.ToClient.Passed()
	if err := call(); err != nil {
		e.t.Errorf("%s: without a fault: %v", c.name, err)
		return
	}
	e.wait()
	out, in = link.ToServer.Passed()-out, link.ToClient.Passed()-in
	places := [...]place{{toServer, 1 + out/2}, {toClient, 1}, {toClient, in - in/10}}
	for how := endsByFIN; how <= stallsLonger; how++ {
		if os.Getenv("TARN_LONG") != "" {
			for _, at := range places {
				e.disturbAt(c, how, at)
			}
		} else {
			e.disturbAt(c, how, places[(turn+int(how))%len(places)])
		}
	}
}

// disturbAt runs a call with a fault.
func (e *faultyShare) disturbAt(c eachCall, how disturbance, at place) {
	e.begin()
	call := c.make(e)
	e.wait()
	link := e.link.Load()
	flow := link.ToServer
	if at.way == toClient {
		flow = link.ToClient
	}
	n := flow.Passed() + at.bytes
	cancel := func() {}
	switch how {
	case endsByFIN:
		flow.CutAfter(n, faultnet.FIN)
	case endsByRST:
		flow.CutAfter(n, faultnet.RST)
	case isCancelled:
		ctx, end := context.WithCancel(e.t.Context())
		e.ctx, cancel = ctx, end
		stalled := flow.StallAfter(n)
		go func() {
			select {
			case <-stalled:
				end()
				link.Break(faultnet.RST) // what closes a file waits longer than its context
			case <-ctx.Done():
			}
		}()
	case stallsLonger:
		e.ctx, cancel = context.WithTimeout(e.t.Context(), 500*time.Millisecond)
		fallthrough
	default:
		flow.StallAfter(n)
	}
	begun := time.Now()
	err := call()
	took := time.Since(begun)
	cancel()
	e.ctx = e.t.Context()
	where := fmt.Sprintf("%s, %v after %d bytes %v", c.name, how, at.bytes, at.way)
	switch {
	case err == nil:
	case how == stallsLonger && errors.Is(err, context.DeadlineExceeded):
	case how == isCancelled && (errors.Is(err, context.Canceled) || errors.Is(err, smb.ErrConnLost)): // what it met first
	case c.repetition == notRepeated && (errors.Is(err, smb.ErrConnLost) || errors.Is(err, smb.ErrMissed)): // a Watcher knows of the loss, or meets it
	default:
		e.t.Errorf("%s: %v", where, err)
	}
	if took > 5*time.Second && e.fakeTime() {
		e.t.Errorf("%s: took %v", where, took)
	}
	if _, err := e.share.Stat("."); err != nil {
		e.t.Errorf("%s: afterwards: %v", where, err)
	}
	if e.link.Load() == link {
		e.t.Errorf("%s: the connection was not lost", where)
	}
}
