package krb5

import (
	"crypto/fips140"
	"errors"
	"fmt"
	"strings"

	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
)

// approve restricts the encryption types that are offered to those of RFC 8009, if the program enforces FIPS 140-3: the others are made of
// HMAC-SHA1, MD4 or RC4, at which Go's cryptography panics then.
func approve(conf *config.Config) {
	if !fips140.Enforced() {
		return
	}
	d := &conf.LibDefaults
	for _, ids := range []*[]int32{&d.DefaultTktEnctypeIDs, &d.DefaultTGSEnctypeIDs, &d.PermittedEnctypeIDs} {
		*ids = []int32{etypeID.AES256_CTS_HMAC_SHA384_192, etypeID.AES128_CTS_HMAC_SHA256_128}
	}
}

// refused, deferred, makes an error that matches [errors.ErrUnsupported] of a panic of Go's cryptography under enforcement, as by a password
// of fewer than 14 bytes, or by a ticket that was issued before.
func refused(err *error) {
	if !fips140.Enforced() {
		return
	}
	r := recover()
	if r == nil {
		return
	}
	if text, ok := r.(string); ok && strings.Contains(text, "FIPS 140-only") {
		*err = fmt.Errorf("%w: %w: %s", ErrTicket, errors.ErrUnsupported, text)
		return
	}
	panic(r)
}
