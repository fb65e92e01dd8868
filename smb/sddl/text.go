package sddl

import (
	"fmt"
	"strconv"
	"strings"
)

// combinedRights pairs SDDL's letters with rights (MS-DTYP 2.5.1.1). Combinations come first.
func combinedRights() []letters {
	return []letters{
		{"FA", 0x1f01ff}, {"FR", 0x120089}, {"FW", 0x120116}, {"FX", 0x1200a0},
		{"KA", 0xf003f}, {"KR", 0x20019}, {"KW", 0x20006}, {"KX", 0x20019},
	}
}

func singleRights() []letters {
	return []letters{
		{"GA", 0x10000000}, {"GX", 0x20000000}, {"GW", 0x40000000}, {"GR", 0x80000000},
		{"RC", 0x20000}, {"SD", 0x10000}, {"WD", 0x40000}, {"WO", 0x80000},
		{"CC", 0x1}, {"DC", 0x2}, {"LC", 0x4}, {"SW", 0x8}, {"RP", 0x10}, {"WP", 0x20},
		{"DT", 0x40}, {"LO", 0x80}, {"CR", 0x100},
	}
}

func aceFlagLetters() []letters {
	return []letters{
		{"OI", uint32(ObjectInherit)}, {"CI", uint32(ContainerInherit)}, {"NP", uint32(NoPropagate)},
		{"IO", uint32(InheritOnly)}, {"ID", uint32(Inherited)}, {"SA", uint32(AuditSuccess)}, {"FA", uint32(AuditFailure)},
	}
}

func aceTypeLetters() []letters {
	return []letters{{"A", uint32(Allow)}, {"D", uint32(Deny)}, {"AU", uint32(Audit)}, {"AL", uint32(Alarm)}, {"ML", uint32(Label)}}
}

type letters struct {
	text string
	bits uint32
}

func find(list []letters, text string) (uint32, bool) {
	for _, x := range list {
		if x.text == text {
			return x.bits, true
		}
	}
	return 0, false
}

// String is the descriptor in SDDL, with "(?)" for entries that SDDL cannot express; Text fails instead.
func (d *Descriptor) String() string {
	s, _ := d.text()
	return s
}

// Text is the descriptor in SDDL. It fails with ErrSyntax for entries other than allow, deny, audit and
// label.
func (d *Descriptor) Text() (string, error) { return d.text() }

func (d *Descriptor) text() (string, error) {
	var b strings.Builder
	if d.Owner != "" {
		b.WriteString("O:" + d.Owner.alias())
	}
	if d.Group != "" {
		b.WriteString("G:" + d.Group.alias())
	}
	var failed error
	list := func(kind string, a *ACL, protected, required, inherited Control) {
		if a == nil {
			return
		}
		b.WriteString(kind + ":")
		if d.Control&protected != 0 {
			b.WriteString("P")
		}
		if d.Control&required != 0 {
			b.WriteString("AR")
		}
		if d.Control&inherited != 0 {
			b.WriteString("AI")
		}
		for i := range a.Entries {
			s, err := a.Entries[i].text()
			if err != nil {
				failed = err
			}
			b.WriteString(s)
		}
	}
	list("D", d.DACL, DACLProtected, DACLAutoInheritReq, DACLAutoInherited)
	list("S", d.SACL, SACLProtected, SACLAutoInheritReq, SACLAutoInherited)
	return b.String(), failed
}

func (e *ACE) text() (string, error) {
	kind := ""
	for _, x := range aceTypeLetters() {
		if x.bits == uint32(e.Type) {
			kind = x.text
		}
	}
	if kind == "" {
		return "(?)", fmt.Errorf("%w: an entry of type %d", ErrSyntax, e.Type)
	}
	flags, left := "", uint32(e.Flags)
	for _, x := range aceFlagLetters() {
		if left&x.bits != 0 {
			flags += x.text
			left &^= x.bits
		}
	}
	if left != 0 {
		return "(?)", fmt.Errorf("%w: flags %#x", ErrSyntax, e.Flags)
	}
	return "(" + kind + ";" + flags + ";" + e.Mask.text() + ";;;" + e.SID.alias() + ")", nil
}

func (m Mask) text() string {
	for _, x := range combinedRights() {
		if x.bits == uint32(m) {
			return x.text
		}
	}
	out, left := "", uint32(m)
	for _, x := range singleRights() {
		if left&x.bits != 0 {
			out += x.text
			left &^= x.bits
		}
	}
	if left != 0 {
		return fmt.Sprintf("%#x", uint32(m))
	}
	return out
}

// Parse reads SDDL (MS-DTYP 2.5.1): O:, G:, D: and S: parts in any order, each once.
func Parse(text string) (*Descriptor, error) {
	d := &Descriptor{}
	seen := ""
	for rest := strings.TrimSpace(text); rest != ""; {
		if len(rest) < 2 || rest[1] != ':' || strings.Contains(seen, rest[:1]) {
			return nil, fmt.Errorf("%w: at %q", ErrSyntax, rest)
		}
		kind := rest[:1]
		seen += kind
		body, after := cutPart(rest[2:])
		rest = after
		var err error
		switch kind {
		case "O":
			d.Owner, err = ParseSID(body)
		case "G":
			d.Group, err = ParseSID(body)
		case "D":
			d.DACL, err = d.parseACL(body, DACLProtected, DACLAutoInheritReq, DACLAutoInherited)
		case "S":
			d.SACL, err = d.parseACL(body, SACLProtected, SACLAutoInheritReq, SACLAutoInherited)
		default:
			err = fmt.Errorf("%w: part %q", ErrSyntax, kind)
		}
		if err != nil {
			return nil, err
		}
	}
	return d, nil
}

// cutPart splits text before the next part, which begins with a letter and a colon outside of parentheses.
func cutPart(text string) (part, rest string) {
	depth := 0
	for i := range len(text) {
		switch text[i] {
		case '(':
			depth++
		case ')':
			depth--
		case ':':
			if depth == 0 && i > 0 {
				return text[:i-1], text[i-1:]
			}
		}
	}
	return text, ""
}

func (d *Descriptor) parseACL(text string, protected, required, inherited Control) (*ACL, error) {
	flags, rest := text, ""
	if i := strings.IndexByte(text, '('); i >= 0 {
		flags, rest = text[:i], text[i:]
	}
	for flags != "" {
		switch {
		case strings.HasPrefix(flags, "AR"):
			d.Control |= required
			flags = flags[2:]
		case strings.HasPrefix(flags, "AI"):
			d.Control |= inherited
			flags = flags[2:]
		case flags[0] == 'P':
			d.Control |= protected
			flags = flags[1:]
		default:
			return nil, fmt.Errorf("%w: flags %q", ErrSyntax, flags)
		}
	}
	a := &ACL{}
	for rest != "" {
		end := strings.IndexByte(rest, ')')
		if rest[0] != '(' || end < 0 {
			return nil, fmt.Errorf("%w: at %q", ErrSyntax, rest)
		}
		e, err := parseACE(rest[1:end])
		if err != nil {
			return nil, err
		}
		a.Entries = append(a.Entries, e)
		rest = rest[end+1:]
	}
	return a, nil
}

func parseACE(text string) (e ACE, err error) {
	fields := strings.Split(text, ";")
	if len(fields) != 6 || fields[3] != "" || fields[4] != "" {
		return e, fmt.Errorf("%w: entry %q", ErrSyntax, text)
	}
	kind, ok := find(aceTypeLetters(), fields[0])
	if !ok {
		return e, fmt.Errorf("%w: type %q", ErrSyntax, fields[0])
	}
	flags, err := parseLetters(fields[1], aceFlagLetters())
	if err != nil {
		return e, err
	}
	e.Type, e.Flags = AceType(kind), AceFlags(flags)
	if e.Mask, err = parseMask(fields[2]); err != nil {
		return e, err
	}
	e.SID, err = ParseSID(fields[5])
	return e, err
}

func parseMask(text string) (Mask, error) {
	if strings.HasPrefix(text, "0x") || text != "" && text[0] >= '0' && text[0] <= '9' {
		n, err := strconv.ParseUint(text, 0, 32)
		if err != nil {
			return 0, fmt.Errorf("%w: rights %q", ErrSyntax, text)
		}
		return Mask(n), nil
	}
	bits, err := parseLetters(text, append(combinedRights(), singleRights()...))
	return Mask(bits), err
}

func parseLetters(text string, list []letters) (bits uint32, err error) {
	for ; text != ""; text = text[2:] {
		if len(text) < 2 {
			return 0, fmt.Errorf("%w: %q", ErrSyntax, text)
		}
		x, ok := find(list, text[:2])
		if !ok {
			return 0, fmt.Errorf("%w: %q", ErrSyntax, text[:2])
		}
		bits |= x
	}
	return bits, nil
}
