//go:build !race

package hyper

// aliases reports whether a message refers to the memory that is lent to it.
const aliases = true
