//go:build race

package mutate

// The race detector is of little use here, and makes each mistake take several times as long.
const shortEvery = 60
