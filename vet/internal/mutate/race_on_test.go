//go:build race

package mutate

// The race detector has little to see here, and makes each mistake cost several times as much.
const shortEvery = 60
