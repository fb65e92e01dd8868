package h2

// Priority is a stream's place among the streams of its connection that have DATA
// to send (RFC 9218). Streams of a lower Urgency are sent first; 0 to 7. Of
// streams with the same Urgency, those that are not Incremental are sent one after
// the other and incremental ones in turns of 128 KiB; one that is not Incremental has every second turn.
//
// A new stream has urgency 3. It is incremental until the peer has sent a priority, which is in a request's priority field
// (SetInitialPriority) or a PRIORITY_UPDATE: a client that sends none does not expect one response to wait for the end of another.
type Priority struct {
	Urgency     uint8
	Incremental bool
}

const (
	defaultUrgency = 3
	maxUrgency     = 7
)

// signals is what the peer has said about priorities.
type signals uint8

const (
	unsignalled signals = iota
	signalled           // it has sent one
	ignored             // it may; see IgnorePriority
)

// initial is the priority of a new stream.
func (g signals) initial() Priority {
	return Priority{Urgency: defaultUrgency, Incremental: g != signalled}
}

// DefaultPriority is the priority that an empty priority field stands for (RFC 9218
// section 4).
func DefaultPriority() Priority { return Priority{Urgency: defaultUrgency} }

// ParsePriority parses the value of a priority field (RFC 9218 section 4), such as
// "u=1, i". Members that are unknown or malformed are ignored, as the RFC asks.
func ParsePriority(value string) Priority {
	p := DefaultPriority()
	for len(value) > 0 {
		var member string
		member, value = cutMember(value)
		switch {
		case len(member) == 3 && member[:2] == "u=" && member[2] >= '0' && member[2] <= '0'+maxUrgency:
			p.Urgency = member[2] - '0'
		case member == "i", member == "i=?1":
			p.Incremental = true
		case member == "i=?0":
			p.Incremental = false
		}
	}
	return p
}

// cutMember cuts the first member off a dictionary (RFC 8941 section 3.2), without
// its parameters.
func cutMember(value string) (member, left string) {
	quoted, end := false, len(value)
	for i := 0; i < len(value); i++ {
		if b := value[i]; b == '\\' && quoted {
			i++
		} else if b == '"' {
			quoted = !quoted
		} else if b == ',' && !quoted {
			end, left = i, value[i+1:]
			break
		}
	}
	member = value[:end]
	for i := 0; i < len(member); i++ {
		if member[i] == ';' {
			member = member[:i]
			break
		}
	}
	for len(member) > 0 && (member[0] == ' ' || member[0] == '\t') {
		member = member[1:]
	}
	for n := len(member); n > 0 && (member[n-1] == ' ' || member[n-1] == '\t'); n-- {
		member = member[:n-1]
	}
	return member, left
}

// String returns p as the value of a priority field.
func (p Priority) String() string {
	s := "u=" + string('0'+rune(min(p.Urgency, maxUrgency)))
	if p.Incremental {
		s += ", i"
	}
	return s
}
