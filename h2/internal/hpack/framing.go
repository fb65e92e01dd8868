package hpack

// Framing is what a header list says of the message's length and host.
type Framing struct {
	Length  string // the first content-length
	Lengths int    // how many there are
	Differ  bool   // and whether they differ
	Hosts   int
}

// Framing is that of the list decoded last.
func (d *Decoder) Framing() Framing {
	m := d.framing
	m.add(d.h.Extra)
	return m
}

// add looks for the fields that may not differ or be repeated.
func (m *Framing) add(fields []Field) {
	for i := range fields {
		switch f := &fields[i]; f.Name {
		case "host":
			m.Hosts++
		case "content-length":
			if m.Lengths++; m.Lengths == 1 {
				m.Length = f.Value
			}
			m.Differ = m.Differ || f.Value != m.Length
		}
	}
}
