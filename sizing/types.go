package sizing

import "github.com/tarn-go/tarn"

// Histogram is a pool's record of what it was asked for. Sizes are exact, or the upper edges of
// buckets; a Histogram made by hand may leave everything else out.
type Histogram = tarn.Histogram

// SizeCount is how many requests were for Size bytes, or for no more than that and more than the
// bucket below.
type SizeCount = tarn.SizeCount

// LifeCount is how many buffers lived for some garbage collections.
type LifeCount = tarn.LifeCount
