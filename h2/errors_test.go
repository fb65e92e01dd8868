package h2

import "testing"

// TestCodeText: every code that a peer may send has a text, also where an int has 32 bits.
func TestCodeText(t *testing.T) {
	for code, want := range map[Code]string{
		NoError: "NO_ERROR", HTTP11Required: "HTTP_1_1_REQUIRED", HTTP11Required + 1: "code 0xe",
		1 << 31: "code 0x80000000", 1<<32 - 1: "code 0xffffffff",
	} {
		if got := code.String(); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
}

func TestErrorTexts(t *testing.T) {
	for want, err := range map[string]error{
		"h2: stream reset by the peer: REFUSED_STREAM":                  &StreamError{Code: RefusedStream, Fault: Told},
		"h2: stream reset, the peer being at fault: PROTOCOL_ERROR: te": &StreamError{Code: ProtocolError, Fault: Peer, Reason: "te"},
		"h2: connection ended by this side: ENHANCE_YOUR_CALM: enough":  &ConnError{Code: EnhanceYourCalm, Reason: "enough"},
		"h2: the peer is going away: NO_ERROR: bye":                     &GoAwayError{Debug: "bye"},
		"h2: connection ended, the peer being at fault: code 0x63":      &ConnError{Code: 0x63, Fault: Peer},
	} {
		if err.Error() != want {
			t.Errorf("%q, not %q", err, want)
		}
	}
}
