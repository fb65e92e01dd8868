package hpack

import "hash/maphash"

// repeats records what the last value of each name was, so that values that calls have in common (a table's
// name, a project, a token) are distinguished from those that differ from call to call (a trace's ID). Names that share
// a slot and alternate are literals each time.
type repeats struct {
	last [32]repeat
}

// repeat is the last value of a name. It holds no reference to the string.
type repeat struct {
	sum   uint64 // of name and value; a collision enters a value that has not been repeated
	entry int32  // which entry of the table it is, from 1; 0: none
}

// of returns the slot of a name, which is not empty.
func (r *repeats) of(name string) *repeat {
	return &r.last[(len(name)+5*int(name[len(name)-1])+11*int(name[len(name)/2]))%len(r.last)]
}

var repeatSeed = maphash.MakeSeed()

func sumOf(f *Field) uint64 {
	return maphash.String(repeatSeed, f.Name) ^ 3*maphash.String(repeatSeed, f.Value)
}

// mayRepeat reports whether f may enter the table.
func mayRepeat(f *Field) bool {
	return len(f.Name) > 0 && len(f.Value) <= maxRepeated && !shortCredential(f)
}

// shortCredential reports whether f may enter no table, of this side or of an intermediary: a peer that can
// have fields of its choice sent on the same connection could find it out by trying (RFC 7541 section 7.1.3).
func shortCredential(f *Field) bool {
	switch f.Name {
	case "authorization", "proxy-authorization", "cookie", "set-cookie":
		return len(f.Value) < minCredential
	}
	return false
}
