// Package crypt is the cryptography of SMB 2 and 3: key derivation, the
// preauthentication hash, signing and encryption of messages.
//
// Signers, Sealers and Openers may be used from any number of goroutines at once,
// and allocate nothing in steady state. What they are given they borrow for the call
// (rule 2).
//
// Sections cited are those of MS-SMB2 unless another document is named.
package crypt
