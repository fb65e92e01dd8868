package sizing

// Histogram says how often each size was asked for.
type Histogram struct {
	Name      string      `json:"name,omitempty"`
	Every     int         `json:"every"`
	Peak      int64       `json:"peak,omitempty"`
	Classes   []int       `json:"classes,omitempty"`
	Sizes     []SizeCount `json:"sizes"`
	Lifetimes []LifeCount `json:"lifetimes,omitempty"`
}

// SizeCount is one bucket of requested sizes.
type SizeCount struct {
	Size  int    `json:"size"`
	Count uint64 `json:"count"`
}

// LifeCount is one bucket of lifetimes.
type LifeCount struct {
	Cycles int    `json:"cycles"`
	Count  uint64 `json:"count"`
}
