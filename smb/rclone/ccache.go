package rclone

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// credentialCache is the file of the Kerberos credential cache that the option names; "" is $KRB5CCNAME, or the one that kinit fills. As
// in rclone's backend smb, DIR: names a directory of caches, whose file "primary" says which is used.
func credentialCache(name string) (string, error) {
	if name == "" {
		name = os.Getenv("KRB5CCNAME")
	}
	if name == "" {
		return fmt.Sprintf("%s/krb5cc_%d", os.TempDir(), os.Getuid()), nil
	}
	dir, ok := strings.CutPrefix(name, "DIR:")
	if !ok {
		return strings.TrimPrefix(name, "FILE:"), nil
	}
	primary, err := os.ReadFile(filepath.Join(dir, "primary"))
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, strings.TrimSpace(string(primary))), nil
}
