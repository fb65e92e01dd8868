package bench

import "strings"

// fillerSize is as much as one write of a server sends.
const fillerSize = 64 << 10

// filler is what responses are made of.
var filler = strings.Repeat("tarn", fillerSize/4)
