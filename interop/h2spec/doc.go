// Package h2spec runs the h2spec conformance suite (github.com/summerwind/h2spec)
// against a server made of package h2.
package h2spec
