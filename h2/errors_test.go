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
