package bench

import "strings"

// fillerSize is the length in bytes of one write of a server.
const fillerSize = 64 << 10

// filler is the content of responses.
var filler = strings.Repeat("tarn", fillerSize/4)
