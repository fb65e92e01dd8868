package rpc

import (
	"fmt"

	"github.com/tarn-go/tarn/h2"
	"golang.org/x/net/http2/hpack"
)

// What is sent to a peer that has named no limit of header lists. nghttp2 (Node, curl, httpd) names none and
// ends the connection beyond either.
const (
	// unannouncedString is how many bytes one name or value may have as encoded.
	unannouncedString = 64 << 10
	// unannouncedList is how many bytes a list may have. It takes no more than the HEADERS and eight CONTINUATION of the
	// smallest frame size, 16 KiB.
	unannouncedList = 9 * 16 << 10
)

// checkUnannounced says why a header list should not be sent to a peer that has announced no limit: it is longer than
// most bytes. 0 stands for 144 KiB, and then strings that are longer than 64 KiB as encoded are not to be sent either: some such
// peers end the connection for one or the other. nil: it may be sent. size is the length of the list in bytes as RFC 9113
// section 6.5.2 counts them, and fields are those of its fields that can be long.
func checkUnannounced(size, most int, fields []h2.Field) error {
	beyond := func(most int) error {
		return fmt.Errorf("of %d bytes; the peer names no limit, and such peers are sent at most %d", size, most)
	}
	if most > 0 {
		if size > most {
			return beyond(most)
		}
		return nil
	}
	if size <= unannouncedString { // as encoded it is shorter
		return nil
	}
	if size > unannouncedList {
		return beyond(unannouncedList)
	}
	for i := range fields {
		n := max(encodedLen(fields[i].Name), encodedLen(fields[i].Value))
		if n > unannouncedString {
			return fmt.Errorf("with a string of %d bytes; the peer names no limit, and such peers are sent at most %d a string", n, unannouncedString)
		}
	}
	return nil
}

// encodedLen is the length in bytes of a long string as h2's encoder writes it.
func encodedLen(s string) int {
	if len(s) <= unannouncedString {
		return len(s)
	}
	return min(len(s), int(hpack.HuffmanEncodeLength(s)))
}
