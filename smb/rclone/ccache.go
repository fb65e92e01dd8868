package rclone

import (
	"fmt"
	"os"
	"strings"
)

// defaultCCache is the credential cache that kinit fills.
func defaultCCache() string {
	if name := os.Getenv("KRB5CCNAME"); name != "" {
		return strings.TrimPrefix(name, "FILE:")
	}
	return fmt.Sprintf("%s/krb5cc_%d", os.TempDir(), os.Getuid())
}
