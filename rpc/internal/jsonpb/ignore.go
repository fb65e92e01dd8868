package jsonpb

// ignore reads the value of an unknown field.
func (r *reader) ignore() bool {
	r.space()
	if r.at == len(r.text) || !r.enter() {
		return false
	}
	end := len(r.b)
	ok := false
	switch r.text[r.at] {
	case '"':
		ok = r.string() >= 0
		r.b = r.b[:end]
	case '{':
		ok = r.members()
	case '[':
		ok = r.elements()
	case 'n':
		ok = r.literal("null")
	case 't', 'f':
		_, ok = r.boolean()
	default:
		ok = r.number()
	}
	return ok && r.leave()
}

// members reads an object.
func (r *reader) members() bool {
	r.skip('{')
	for first := true; !r.skip('}'); first = false {
		if !first && !r.skip(',') {
			return false
		}
		end := len(r.b)
		ok := r.string() >= 0
		r.b = r.b[:end]
		if !ok || !r.skip(':') || !r.ignore() {
			return false
		}
	}
	return true
}

// elements reads an array.
func (r *reader) elements() bool {
	r.skip('[')
	for first := true; !r.skip(']'); first = false {
		if !first && !r.skip(',') || !r.ignore() {
			return false
		}
	}
	return true
}
