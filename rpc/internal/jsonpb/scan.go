package jsonpb

import "bytes"

// scanner reads the punctuation of JSON.
type scanner struct {
	text []byte
	at   int
}

// space skips white space.
func (s *scanner) space() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\n', '\r', '\t':
			s.at++
		default:
			return
		}
	}
}

// skip skips c and white space before it. It reports whether c was there.
func (s *scanner) skip(c byte) bool {
	if s.at < len(s.text) && s.text[s.at] == c {
		s.at++
		return true
	}
	s.space()
	if s.at < len(s.text) && s.text[s.at] == c {
		s.at++
		return true
	}
	return false
}

// literal skips a word. What follows it is punctuation, or the caller finds that it is not.
func (s *scanner) literal(word string) bool {
	if len(s.text)-s.at < len(word) || string(s.text[s.at:s.at+len(word)]) != word {
		return false
	}
	s.at += len(word)
	return true
}

// digits skips digits, and returns how many.
func (s *scanner) digits() int {
	from := s.at
	for s.at < len(s.text) && s.text[s.at]-'0' <= 9 {
		s.at++
	}
	return s.at - from
}

// number skips a number (RFC 8259, section 6).
func (s *scanner) number() bool {
	s.literal("-")
	from := s.at
	if n := s.digits(); n == 0 || n > 1 && s.text[from] == '0' {
		return false
	}
	if s.literal(".") && s.digits() == 0 {
		return false
	}
	if s.literal("e") || s.literal("E") {
		if !s.literal("-") {
			s.literal("+")
		}
		return s.digits() > 0
	}
	return true
}

// quoted returns what is between quotes, which has no escapes if it is one of the texts that the caller expects.
func (s *scanner) quoted() ([]byte, bool) {
	if !s.skip('"') {
		return nil, false
	}
	n := bytes.IndexByte(s.text[s.at:], '"')
	if n < 0 {
		return nil, false
	}
	text := s.text[s.at : s.at+n]
	s.at += n + 1
	return text, true
}
