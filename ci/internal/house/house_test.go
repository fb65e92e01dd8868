// Package house_test tests the repository: its rules, its modules and its pages. These tests are not among the root package's,
// because they compile other modules and say the same under the race detector, on 32 bits and with the oldest Go.
package house_test

import (
	"log"
	"os"
	"testing"
)

// The tests name files as they are seen from the repository's root.
func TestMain(m *testing.M) {
	if err := os.Chdir("../../.."); err != nil {
		log.Fatal(err)
	}
	os.Exit(m.Run())
}
