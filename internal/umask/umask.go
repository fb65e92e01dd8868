// Package umask has the umask of the process.
package umask

import (
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// Get returns the umask as Linux reports it without changing it; 0o022 where it is not known.
func Get() fs.FileMode {
	const usual = 0o022
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return usual
	}
	_, after, _ := strings.Cut(string(b), "\nUmask:")
	line, _, _ := strings.Cut(after, "\n")
	mask, err := strconv.ParseUint(strings.TrimSpace(line), 8, 32)
	if err != nil {
		return usual
	}
	return fs.FileMode(mask).Perm()
}
