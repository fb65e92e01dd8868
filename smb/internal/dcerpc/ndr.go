package dcerpc

import "github.com/tarn-go/tarn/smb/internal/proto"

// appendString appends a conformant varying string with its terminator, padded to four
// bytes (C706 14.3.4).
func appendString(dst []byte, s string) []byte {
	n := uint32(proto.UTF16Len(s)/2 + 1)
	dst = le.AppendUint32(dst, n)
	dst = le.AppendUint32(dst, 0)
	dst = le.AppendUint32(dst, n)
	dst = proto.AppendUTF16(dst, s)
	dst = append(dst, 0, 0)
	for len(dst)&3 != 0 {
		dst = append(dst, 0)
	}
	return dst
}

// reader decodes NDR. After the first value that is missing it returns zeros, and bad is true.
type reader struct {
	b   []byte
	at  int
	bad bool
}

func (r *reader) uint32() uint32 {
	r.at = (r.at + 3) &^ 3
	if r.bad || len(r.b)-r.at < 4 {
		r.bad = true
		return 0
	}
	v := le.Uint32(r.b[r.at:])
	r.at += 4
	return v
}

// string reads a conformant varying string without its terminator.
func (r *reader) string() string {
	most, offset, n := r.uint32(), r.uint32(), r.uint32()
	if r.bad || offset != 0 || n > most || uint64(n)*2 > uint64(len(r.b)-r.at) {
		r.bad = true
		return ""
	}
	s := r.b[r.at : r.at+int(n)*2]
	r.at += int(n) * 2
	for len(s) >= 2 && s[len(s)-1] == 0 && s[len(s)-2] == 0 {
		s = s[:len(s)-2]
	}
	return proto.DecodeUTF16(s)
}
