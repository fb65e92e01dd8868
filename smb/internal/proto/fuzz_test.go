package proto

import (
	"errors"
	"testing"
)

// inside fails when a view does not lie within b: a decoder may return no other memory.
func inside(t *testing.T, b []byte, views ...[]byte) {
	t.Helper()
	for _, v := range views {
		if len(v) > len(b) {
			t.Errorf("a view of %d bytes into %d", len(v), len(b))
		}
		if cap(v) > len(v) && cap(v) > cap(b) {
			t.Errorf("a view with room for %d behind %d bytes", cap(v), len(b))
		}
	}
}

func allowed(t *testing.T, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, ErrMalformed) {
		t.Errorf("an error that does not match ErrMalformed: %v", err)
	}
}

// walk runs an iterator to its end, which must come within one step per four bytes.
func walk(t *testing.T, b []byte, next func() bool, err func() error) {
	t.Helper()
	steps := 0
	for next() {
		if steps++; steps > len(b)/4+1 {
			t.Fatal("endless")
		}
	}
	allowed(t, err())
	if next() {
		t.Error("goes on after its end")
	}
}

func FuzzElements(f *testing.F) {
	f.Add(PadCompound(AppendSimple((&Header{}).Append(nil)), 0))
	two := PadCompound(AppendSimple((&Header{}).Append(nil)), 0)
	f.Add(AppendSimple((&Header{}).Append(two)))
	f.Fuzz(func(t *testing.T, b []byte) {
		e := NewElements(b)
		total := 0
		walk(t, b, func() bool {
			ok := e.Next()
			if ok {
				total += len(e.Message())
				if len(e.Message()) < HeaderSize {
					t.Error("a message shorter than its header")
				}
				_, err := DecodeHeader(e.Message())
				allowed(t, err)
			}
			return ok
		}, e.Err)
		if e.Err() == nil && total != len(b) {
			t.Errorf("%d of %d bytes", total, len(b))
		}
	})
}

func FuzzResponses(f *testing.F) {
	f.Add(readResponse(80, "payload"))
	f.Add(readResponse(90, "payload"))
	f.Add(message(64, 65, func(b []byte) { le.PutUint16(b[4:], uint16(Dialect311)) }))
	f.Add(message(8, 9, nil))
	f.Add(message(16, 16, nil))
	f.Add(message(88, 89, nil))
	f.Add(message(60, 60, nil))
	f.Add(message(16, 17, nil))
	f.Add(message(48, 49, nil))
	f.Add(message(44, 44, nil))
	f.Add(message(24, 24, nil))
	f.Add(message(36, 36, nil))
	f.Add(message(4, 4, nil))
	f.Add(errorMessage(0, symlinkData("t")))
	create := message(88, 89, func(b []byte) {
		le.PutUint32(b[80:], HeaderSize+88)
		le.PutUint32(b[84:], 56)
	})
	f.Add((&CreateContexts{Lease: Lease{Version: LeaseV1}}).append(create))
	negotiate := message(64, 65, func(b []byte) {
		le.PutUint16(b[4:], uint16(Dialect311))
		le.PutUint16(b[6:], 3)
		le.PutUint32(b[60:], HeaderSize+64)
	})
	f.Add((&NegotiateRequest{Salt: make([]byte, 32), Ciphers: []Cipher{2}, SigningAlgorithms: []SigningAlgorithm{2}}).
		appendContexts(negotiate, 0))
	posix := message(88, 89, func(b []byte) {
		le.PutUint32(b[80:], HeaderSize+88)
		le.PutUint32(b[84:], uint32(32+len(posixAttributes(0))))
	})
	last := -1
	posix = linkContext(posix, len(posix), &last, posixTag, len(posixAttributes(0)))
	f.Add(append(posix, posixAttributes(0o644)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		neg, err := DecodeNegotiateResponse(b)
		allowed(t, err)
		inside(t, b, neg.SecurityToken)
		setup, err := DecodeSessionSetupResponse(b)
		allowed(t, err)
		inside(t, b, setup.Token)
		_, err = DecodeTreeConnectResponse(b)
		allowed(t, err)
		_, err = DecodeCreateResponse(b)
		allowed(t, err)
		_, err = DecodeCloseResponse(b)
		allowed(t, err)
		read, err := DecodeReadResponse(b)
		allowed(t, err)
		inside(t, b, read.Data)
		_, err = DecodeWriteResponse(b)
		allowed(t, err)
		ioctl, err := DecodeIoctlResponse(b)
		allowed(t, err)
		inside(t, b, ioctl.Output)
		_, err = DecodeBreak(b)
		allowed(t, err)
		_, err = DecodeTransformHeader(b)
		allowed(t, err)
		for _, s := range []Status{StatusStoppedOnSymlink, StatusBufferTooSmall, StatusAccessDenied} {
			for _, d := range []Dialect{Dialect302, Dialect311} {
				r, err := DecodeErrorResponse(b, s, d)
				allowed(t, err)
				inside(t, b, r.Symlink.Print, r.Symlink.Substitute)
			}
		}
	})
}

func FuzzLists(f *testing.F) {
	f.Add(output(make([]byte, FileIDBothDirectoryInformation.fixed())))
	f.Add(output([]byte{0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 'a', 0}))
	f.Add(output(posixEntry("name")))
	f.Fuzz(func(t *testing.T, b []byte) {
		out, err := DecodeQueryInfoResponse(b)
		allowed(t, err)
		inside(t, b, out)
		for _, class := range append(dirClasses(), FilePOSIXInformation) {
			if e, err := DecodeQueryDirectoryResponse(b, class); err == nil {
				walk(t, b, e.Next, e.Err)
				inside(t, b, e.Entry().Name)
			}
		}
		if e, err := DecodeChangeNotifyResponse(b); err == nil {
			walk(t, b, e.Next, e.Err)
			inside(t, b, e.Event().Name)
		}
	})
}

func FuzzStructures(f *testing.F) {
	f.Add((&EA{Name: "user.k", Value: []byte("v")}).Append(nil))
	f.Add(AppendRange(nil, Range{1, 2}))
	f.Add(AppendSymlink(nil, `a\b`, 0))
	f.Add(append([]byte{12, 0, 1, 0, 2, 0, 0, 0, 4, 0, 34, 0, 0, 0, 4, 0}, make([]byte, 40)...))
	f.Add(append([]byte{12, 0, 1, 0, 2, 0, 0, 0, 3, 0, 18, 0, 0, 0, 2, 0}, make([]byte, 40)...))
	f.Add(append([]byte{12, 0, 1, 0, 2, 0, 0, 0, 2, 0, 22, 0, 0, 0, 0, 0}, make([]byte, 40)...))
	f.Add(make([]byte, 120))
	f.Add(posixInfo(0o644))
	f.Add(append(append(make([]byte, 96), 4, 0, 0, 0), '\\', 0, 'a', 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		name, err := DecodeAllInfoPath(b)
		allowed(t, err)
		if len(name) > 2*len(b) {
			t.Error("a path longer than the bytes that it is of")
		}
		if i, err := DecodePOSIXInfo(b); err == nil && i.POSIX.Owner.String() == "" {
			t.Error("an owner without text")
		} else {
			allowed(t, err)
		}
		if r, err := DecodeReferrals(b); err == nil {
			walk(t, append(b, make([]byte, 8)...), r.Next, r.Err)
			inside(t, b, r.Referral().Path, r.Referral().Target, r.Referral().ExpandedRaw)
		}
		if list, err := DecodeStreams(b); err == nil {
			for _, x := range list {
				inside(t, b, x.Name)
			}
		}
		if list, err := DecodeEAs(b); err == nil {
			for _, x := range list {
				inside(t, b, x.Value)
			}
		}
		if list, err := DecodeRanges(b); err == nil && len(list) > len(b)/16 {
			t.Error("more ranges than bytes")
		}
		if _, _, names, err := DecodeSnapshots(b); err == nil && len(names) > len(b) {
			t.Error("more snapshots than bytes")
		}
		r, err := DecodeReparse(b)
		allowed(t, err)
		inside(t, b, r.Print, r.Substitute)
		_, err = DecodeNetworkOpenInfo(b)
		allowed(t, err)
		_, err = DecodeInternalInfo(b)
		allowed(t, err)
		_, err = DecodeFSFullSizeInfo(b)
		allowed(t, err)
		_, err = DecodeResumeKey(b)
		allowed(t, err)
		_, err = DecodeCopyChunk(b)
		allowed(t, err)
		_, err = DecodeValidatedNegotiate(b)
		allowed(t, err)
		_, err = decodeCreateGrants(b)
		allowed(t, err)
	})
}
