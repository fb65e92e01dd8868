package spnego

import "fmt"

// oidSPNEGO identifies SPNEGO itself (RFC 4178 4.1).
const oidSPNEGO = "1.3.6.1.5.5.2"

// negState is the acceptor's state (RFC 4178 4.2.2).
type negState int

const (
	acceptCompleted  negState = 0
	acceptIncomplete negState = 1
	reject           negState = 2
	requestMIC       negState = 3
	noState          negState = -1
)

// mechList is the MechTypeList of one mechanism, over which mechListMIC is computed.
func mechList(oid string) []byte {
	return element(nil, tagSequence, element(nil, tagOID, encodeOID(oid)))
}

// encodeInit is the initiator's first token (RFC 4178 4.2.1).
func encodeInit(list, token []byte) []byte {
	inner := element(nil, tagContext, list)
	if len(token) > 0 {
		inner = element(inner, tagContext+2, element(nil, tagOctets, token))
	}
	return element(nil, tagGSS,
		element(nil, tagOID, encodeOID(oidSPNEGO)),
		element(nil, tagContext, element(nil, tagSequence, inner)))
}

// encodeResponse is a later token of the initiator (RFC 4178 4.2.2).
func encodeResponse(token, mic []byte) []byte {
	var inner []byte
	if len(token) > 0 {
		inner = element(inner, tagContext+2, element(nil, tagOctets, token))
	}
	if len(mic) > 0 {
		inner = element(inner, tagContext+3, element(nil, tagOctets, mic))
	}
	return element(nil, tagContext+1, element(nil, tagSequence, inner))
}

// decodeOffer reads the token that a server sends with its NEGOTIATE response, of which only the list of
// mechanisms is used (MS-SPNG 2.2.1): f gets the content of each OID.
func decodeOffer(b []byte, f func(oid []byte)) error {
	b, err := only(b, tagGSS)
	if err != nil {
		return err
	}
	oid, b, err := expect(b, tagOID)
	if err != nil {
		return err
	}
	if string(oid) != string(encodeOID(oidSPNEGO)) {
		return fmt.Errorf("%w: not of SPNEGO", ErrToken)
	}
	if b, err = only(b, tagContext); err != nil {
		return err
	}
	if b, err = only(b, tagSequence); err != nil {
		return err
	}
	list, _, err := expect(b, tagContext)
	if err != nil {
		return err
	}
	if list, err = only(list, tagSequence); err != nil {
		return err
	}
	for len(list) > 0 {
		if oid, list, err = expect(list, tagOID); err != nil {
			return err
		}
		f(oid)
	}
	return nil
}

// response is a token of the acceptor (RFC 4178 4.2.2).
type response struct {
	state negState
	mech  []byte // content of the OID; nil when absent
	token []byte
	mic   []byte
}

func decodeResponse(b []byte) (response, error) {
	r := response{state: noState}
	b, err := only(b, tagContext+1)
	if err != nil {
		return r, err
	}
	if b, err = only(b, tagSequence); err != nil {
		return r, err
	}
	last := byte(0)
	for len(b) > 0 {
		var tag byte
		var value []byte
		if tag, value, b, err = take(b); err != nil {
			return r, err
		}
		if tag <= last {
			return r, fmt.Errorf("%w: fields out of order", ErrToken)
		}
		last = tag
		if err := r.field(tag, value); err != nil {
			return r, err
		}
	}
	return r, nil
}

func (r *response) field(tag byte, value []byte) (err error) {
	switch tag {
	case tagContext:
		if value, err = only(value, tagEnumerated); err != nil {
			return err
		}
		if len(value) != 1 || value[0] > byte(requestMIC) {
			return fmt.Errorf("%w: unknown state", ErrToken)
		}
		r.state = negState(value[0])
	case tagContext + 1:
		r.mech, err = only(value, tagOID)
	case tagContext + 2:
		r.token, err = only(value, tagOctets)
	case tagContext + 3:
		r.mic, err = only(value, tagOctets)
	default:
		err = fmt.Errorf("%w: unknown field %#x", ErrToken, tag)
	}
	return err
}
