// Package crypt is the cryptography of SMB 2 and 3: key derivation, the
// preauthentication hash, signing and encryption of messages.
//
// Signers, Sealers and Openers may be used concurrently, and allocate nothing in steady state. They borrow
// their arguments for the call (rule 2).
//
// Sections cited are those of MS-SMB2 unless another document is named.
package crypt
