package metrics

import "github.com/tarn-go/tarn"

// The two families that are made of more than Stats.
const (
	PinnedName = "tarn_pool_pinned_unseen_bytes"
	PinnedHelp = "Estimated bytes in use beyond the requested ones."

	SizesName = "tarn_pool_requested_size_bytes"
	SizesHelp = "Requested sizes in bytes, estimated from samples."
)

// Sizes are the sizes that were asked for, as Prometheus counts them.
type Sizes struct {
	Buckets []Bucket // rising, one a doubling from 64 B to the largest class there may be
	Count   uint64
	Sum     float64 // bytes
}

// Bucket is how many gets asked for at most so many bytes.
type Bucket struct {
	UpTo  int
	Count uint64
}

// SizesOf sums up what a pool recorded.
func SizesOf(h tarn.Histogram) Sizes {
	var s Sizes
	next := 0
	for edge := 64; 0 < edge && edge <= tarn.MaxClassSize; edge *= 2 { // an int of 32 bits turns negative
		for ; next < len(h.Sizes) && h.Sizes[next].Size <= edge; next++ {
			s.add(h.Sizes[next])
		}
		s.Buckets = append(s.Buckets, Bucket{edge, s.Count})
	}
	for ; next < len(h.Sizes); next++ {
		s.add(h.Sizes[next])
	}
	return s
}

func (s *Sizes) add(c tarn.SizeCount) {
	s.Count += c.Count
	if c.Bytes > 0 {
		s.Sum += float64(c.Bytes)
	} else {
		s.Sum += float64(c.Count) * float64(c.Size)
	}
}
