//go:build !race

package mutate

const shortEvery = 24
