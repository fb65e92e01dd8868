//go:build !race

package mutate

const shortEvery = 12
