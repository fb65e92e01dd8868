// Package vet runs the analyser over other people's libraries that count references: methods named Ref, Retain,
// Release, Free and Split that are not Tarn's, and over programs that use both. It reports nothing in any of them.
package vet
