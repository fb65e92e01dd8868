// Package leftout skips tests for which a program is not installed, and has each one listed at the end of
// `make test`, so that none is skipped silently.
package leftout

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Missing returns the first of the named programs that is neither in PATH nor in /usr/sbin, where Debian
// puts servers; "" when all are installed.
func Missing(programs ...string) string {
	for _, name := range programs {
		if _, err := Path(name); err != nil {
			return name
		}
	}
	return ""
}

// Path returns where a program is installed: in PATH or in /usr/sbin.
func Path(program string) (string, error) {
	path, err := exec.LookPath(program)
	if err == nil {
		return path, nil
	}
	sbin := filepath.Join("/usr/sbin", program)
	if info, serr := os.Stat(sbin); serr == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
		return sbin, nil
	}
	return "", err
}

// Need leaves the test out when a program is missing. debian names the packages that have the programs,
// for the message.
func Need(t testing.TB, debian string, programs ...string) {
	t.Helper()
	if name := Missing(programs...); name != "" {
		Skip(t, fmt.Sprintf("%s is not installed (Debian: %s)", name, debian))
	}
}

// Skip leaves the test out for the reason given and appends it to the file that the environment's
// TARN_LEFT_OUT names, which `make test` prints when all has run. With CI=true the test fails instead:
// there everything must be installed.
func Skip(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s; with CI=true no test may be left out", reason)
	}
	Note(t, reason)
	t.Skip("left out: " + reason)
}

// Note logs a line about a test and appends it to the file of Skip, so that `make test` prints it when all has run: for
// example that a test of net/http's passed only when it ran by itself.
func Note(t testing.TB, line string) {
	t.Helper()
	if err := note(os.Getenv("TARN_LEFT_OUT"), t.Name(), line); err != nil {
		t.Fatal(err)
	}
	t.Log(line)
}

// note appends one line to file in one write, so that test binaries running at once do not mix theirs.
func note(file, test, reason string) error {
	if file == "" {
		return nil
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	// The words of a command that failed may have several lines; the list has one for each test.
	if _, err := fmt.Fprintf(f, "%s: %s\n", test, strings.Join(strings.Fields(reason), " ")); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
