package web

import (
	"encoding/binary"
	"strings"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/rpc/internal/message"
)

// Flags of frames that are no messages.
const (
	EndStreamFlag = 0x02 // the envelope that ends a stream of Connect with its status and trailer
	TrailerFlag   = 0x80 // the frame that ends a response of gRPC-Web with its trailer
)

// frame is text behind its prefix.
func frame(flag byte, text []byte) []byte {
	b := make([]byte, message.PrefixLen, message.PrefixLen+len(text))
	b[0] = flag
	binary.BigEndian.PutUint32(b[1:], uint32(len(text)))
	return append(b, text...)
}

// TrailerFrame is the frame that ends a response of gRPC-Web with fields.
func TrailerFrame(fields []h2.Field) []byte {
	var text []byte
	for _, f := range fields {
		text = append(text, f.Name+": "+f.Value+"\r\n"...)
	}
	return frame(TrailerFlag, text)
}

// ReadTrailer returns the fields in the content of such a frame, their names in lower case. If a line has no colon, it returns that line as bad.
func ReadTrailer(text []byte) (fields []h2.Field, bad string) {
	for line := range strings.SplitSeq(string(text), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, line
		}
		fields = append(fields, h2.Field{Name: strings.ToLower(strings.TrimSpace(name)), Value: strings.TrimSpace(value)})
	}
	return fields, ""
}
