//go:build !unix

package cputime

import "time"

// Used returns 0: this system's count is not read.
func Used() time.Duration { return 0 }

// Own returns 0.
func Own() Spent { return Spent{} }
