package proto

// AppendDFSReferralRequest appends the input of FSCTL_DFS_GET_REFERRALS: path, which begins with one
// backslash. It requests entries of version 4 or below (MS-DFSC 2.2.2).
func AppendDFSReferralRequest(dst []byte, path string) []byte {
	dst = le.AppendUint16(dst, 4)
	dst = AppendUTF16(dst, path)
	return le.AppendUint16(dst, 0)
}

// Flags of a referral's header (MS-DFSC 2.2.4) and entries (MS-DFSC 2.2.5.3).
const (
	ReferralServers    uint32 = 1 // targets are DFS roots, ask them again
	ReferralStorage    uint32 = 2 // targets hold the data
	ReferralFailback   uint32 = 4
	ReferralNameList   uint16 = 2 // of an entry: a list of domain controllers
	referralEntryFixed        = 8
)

// Referrals is the answer to a referral request (MS-DFSC 2.2.4) and iterates over its entries. It is a value:
// copying it copies the position.
type Referrals struct {
	// Consumed is the length in bytes, in UTF-16, of the start of the path that the targets replace.
	Consumed uint16
	Flags    uint32

	count int
	rest  []byte
	cur   Referral
	err   error
}

// Referral is one target (MS-DFSC 2.2.5). Names are UTF-16LE without terminator and alias
// the message.
type Referral struct {
	Version     uint16
	TTL         uint32 // seconds; 0 in version 1
	Flags       uint16
	Path        []byte // the prefix that the target replaces, as requested
	Target      []byte // \server\share\path, or the special name of a list
	IsNameList  bool
	NameCount   uint16
	ExpandedRaw []byte // the names of a list, each with its terminator
}

// DecodeReferrals reads the output of FSCTL_DFS_GET_REFERRALS.
func DecodeReferrals(b []byte) (Referrals, error) {
	if len(b) < 8 {
		return Referrals{}, malformed("DFS referral", reasonShort)
	}
	return Referrals{
		Consumed: le.Uint16(b),
		Flags:    le.Uint32(b[4:]),
		count:    int(le.Uint16(b[2:])),
		rest:     b[8:],
	}, nil
}

// Next moves to the next target and reports whether there is one; when it returns false, Err says whether an
// error ended the iteration.
func (r *Referrals) Next() bool {
	if r.err != nil || r.count == 0 {
		return false
	}
	r.count--
	if !r.entry() {
		r.err = malformed("DFS referral", reasonBounds)
		return false
	}
	return true
}

// Referral is the target that Next moved to, valid until the message's buffer is freed (rule 3).
func (r *Referrals) Referral() Referral { return r.cur }

// Err is the error that ended the iteration, nil after a complete one.
func (r *Referrals) Err() error { return r.err }

// entry decodes the entry at the front. Offsets of names count from the start of their entry; names may lie
// behind all entries.
func (r *Referrals) entry() bool {
	b := r.rest
	if len(b) < referralEntryFixed {
		return false
	}
	size := int(le.Uint16(b[2:]))
	if size < referralEntryFixed || size > len(b) {
		return false
	}
	r.rest = b[size:]
	r.cur = Referral{Version: le.Uint16(b), Flags: le.Uint16(b[6:])}
	switch r.cur.Version {
	case 1:
		r.cur.Target = untilZero(b[referralEntryFixed:size])
		return true
	case 2:
		return size >= 22 && r.names(b, 12, 16)
	case 3, 4:
		if r.cur.Flags&ReferralNameList != 0 {
			return size >= 18 && r.nameList(b)
		}
		return size >= 18 && r.names(b, 8, 12)
	}
	return false
}

// names reads time to live at ttl and the three name offsets at off.
func (r *Referrals) names(b []byte, ttl, off int) bool {
	r.cur.TTL = le.Uint32(b[ttl:])
	path, target := int(le.Uint16(b[off:])), int(le.Uint16(b[off+4:]))
	if path > len(b) || target > len(b) {
		return false
	}
	r.cur.Path, r.cur.Target = untilZero(b[path:]), untilZero(b[target:])
	return true
}

func (r *Referrals) nameList(b []byte) bool {
	r.cur.TTL = le.Uint32(b[8:])
	r.cur.IsNameList = true
	special, expanded := int(le.Uint16(b[12:])), int(le.Uint16(b[16:]))
	r.cur.NameCount = le.Uint16(b[14:])
	if special > len(b) || expanded > len(b) {
		return false
	}
	r.cur.Target, r.cur.ExpandedRaw = untilZero(b[special:]), b[expanded:]
	return true
}

// untilZero is the start of b before its first UTF-16 zero, all of it when there is none.
func untilZero(b []byte) []byte {
	for i := 0; i+2 <= len(b); i += 2 {
		if b[i] == 0 && b[i+1] == 0 {
			return b[:i:i]
		}
	}
	return b
}
