package dcerpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
)

// server answers binds and NetrShareEnum, in fragments of a given size, through reads of a given size.
type server struct {
	shares   []Share
	fragment int // bytes of stub in a fragment
	read     int // bytes returned by one read
	pending  []byte
	bindWith func(pdu []byte) []byte
	callWith func(pdu []byte) []byte
}

func (s *server) Transact(ctx context.Context, request, dst []byte) ([]byte, error) {
	p, n, err := cutPDU(request)
	if err != nil || n != len(request) {
		return dst, fmt.Errorf("bad request: %v", err)
	}
	switch p.kind {
	case pduBind:
		b := header(pduBindAck, p.call)
		b = append(b, 0xb8, 0x10, 0xb8, 0x10, 1, 0, 0, 0)
		b = le.AppendUint16(b, 13)
		b = append(b, "\\PIPE\\srvsvc\x00"...)
		for len(b)&3 != 0 {
			b = append(b, 0)
		}
		b = append(b, 1, 0, 0, 0, 0, 0, 0, 0)
		s.pending = finish(append(b, syntaxNDR...))
		if s.bindWith != nil {
			s.pending = s.bindWith(s.pending)
		}
	case pduRequest:
		s.pending = nil
		stub := s.stub()
		for at := 0; at < len(stub); at += s.fragment {
			part := stub[at:min(at+s.fragment, len(stub))]
			b := header(pduResponse, p.call)
			b = le.AppendUint32(b, uint32(len(stub)-at))
			b = append(b, 0, 0, 0, 0)
			b = finish(append(b, part...))
			b[3] = 0
			if at == 0 {
				b[3] |= flagFirst
			}
			if at+s.fragment >= len(stub) {
				b[3] |= flagLast
			}
			if s.callWith != nil {
				b = s.callWith(b)
			}
			s.pending = append(s.pending, b...)
		}
	}
	return s.Read(ctx, dst)
}

func (s *server) Read(_ context.Context, dst []byte) ([]byte, error) {
	if len(s.pending) == 0 {
		return dst, io.ErrUnexpectedEOF
	}
	n := min(s.read, len(s.pending))
	dst = append(dst, s.pending[:n]...)
	s.pending = s.pending[n:]
	return dst, nil
}

func (s *server) stub() []byte {
	b := le.AppendUint32(nil, 1)
	b = le.AppendUint32(b, 1)
	b = le.AppendUint32(b, 0x20000)
	b = le.AppendUint32(b, uint32(len(s.shares)))
	b = le.AppendUint32(b, 0x20004)
	b = le.AppendUint32(b, uint32(len(s.shares)))
	for _, sh := range s.shares {
		b = le.AppendUint32(b, 0x20008)
		b = le.AppendUint32(b, sh.Type)
		b = le.AppendUint32(b, 0x2000c)
	}
	for _, sh := range s.shares {
		b = appendString(b, sh.Name)
		b = appendString(b, sh.Comment)
	}
	b = le.AppendUint32(b, uint32(len(s.shares)))
	b = le.AppendUint32(b, 0)
	return le.AppendUint32(b, 0)
}

func testShares(n int) []Share {
	out := []Share{{"IPC$", "IPC Service", 3 | ShareSpecial}, {"data", "", 0}, {"Büro", "日本", 0}}
	for i := len(out); i < n; i++ {
		out = append(out, Share{Name: fmt.Sprintf("share-%d", i), Comment: "one of many"})
	}
	return out
}

func TestListShares(t *testing.T) {
	for _, n := range []int{3, 500} {
		for _, sizes := range [][2]int{{4000, 1 << 20}, {100, 1024}, {7, 5}, {1 << 15, 4280}} {
			want := testShares(n)
			got, err := ListShares(context.Background(), &server{shares: want, fragment: sizes[0], read: sizes[1]}, "host")
			if err != nil {
				t.Fatalf("%d shares, %v: %v", n, sizes, err)
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%d shares, %v: got %v", n, sizes, got)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	for name, tc := range map[string]struct {
		s    server
		want error
	}{
		"bind nak": {server{bindWith: func(b []byte) []byte { b[2] = pduBindNak; return b }}, ErrRefused},
		"bind result": {server{bindWith: func(b []byte) []byte {
			b[len(b)-24] = 2
			return b
		}}, ErrRefused},
		"fault":       {server{callWith: func(b []byte) []byte { b[2] = pduFault; return b }}, ErrRefused},
		"other call":  {server{callWith: func(b []byte) []byte { b[12] = 9; return b }}, ErrMalformed},
		"never first": {server{callWith: func(b []byte) []byte { b[3] = flagLast; return b }}, ErrMalformed},
		"big-endian":  {server{callWith: func(b []byte) []byte { b[4] = 0; return b }}, ErrMalformed},
		"never last":  {server{callWith: func(b []byte) []byte { b[3] &^= flagLast; return b }}, io.ErrUnexpectedEOF},
	} {
		tc.s.shares, tc.s.fragment, tc.s.read = testShares(3), 1000, 4280
		if _, err := ListShares(context.Background(), &tc.s, "host"); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
}

func FuzzShareEnum(f *testing.F) {
	f.Add((&server{shares: testShares(3)}).stub())
	f.Add(append([]byte("\x01\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\xff\xff\xff\x0f\x01\x00\x00\x00\xff\xff\xff\x0f"), make([]byte, 40)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		shares, err := decodeShareEnum(b)
		if err == nil && len(shares)*12 > len(b) {
			t.Errorf("%d shares out of %d bytes", len(shares), len(b))
		}
	})
}

func FuzzPDU(f *testing.F) {
	f.Add(encodeBind(1))
	f.Add(encodeRequest(1, 15, encodeShareEnum("h")))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, n, err := cutPDU(b)
		if err != nil || n == 0 {
			return
		}
		if n > len(b) {
			t.Fatal("longer than the input")
		}
		checkBind(p)
	})
}
