// Package slab holds the memory behind tarn's buffers: slabs with their state word, size classes with
// their idle slabs and books, the depot that makes and takes back slabs within bounds, and arenas that
// cut one slab into many references. It is the only package that touches a state word.
//
// A reference is a *Slab and a Key, which the caller keeps together as one value; package tarn's
// Buffer adds an offset and a length. Rules are those of package tarn.
package slab
