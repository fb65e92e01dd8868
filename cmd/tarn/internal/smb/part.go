package smb

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// partPrefix begins the names of unfinished files, those of package smb's ReplaceFile and Copy among them. There is no dot in front: servers may refuse or hide such names.
const partPrefix = "tarn-part-"

// unfinished reports whether a file is being written by this command or by package smb, as its name says. It is not copied with its
// directory, and not removed: its writer may still need it.
func unfinished(name string) bool { return strings.HasPrefix(name, partPrefix) }

// partKey makes the names of unfinished files known to this user alone: another user who may write to a
// directory must not be able to create a file there that a copy then continues. It is stored, so
// that a copy continues after an interruption. Where it cannot be kept, it is another one each time.
func partKey() (key []byte, kept bool) {
	dir, err := os.UserCacheDir()
	if err == nil {
		if key, err = keptKey(filepath.Join(dir, "tarn")); err == nil {
			return key, true
		}
	}
	return newKey(), false
}

const keyBytes = 32

func newKey() []byte {
	key := make([]byte, keyBytes)
	rand.Read(key) // never fails: the runtime ends the process instead
	return key
}

// keptKey reads the key in dir, and makes it when there is none.
func keptKey(dir string) ([]byte, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	name := filepath.Join(dir, "part-key")
	if key, err := readKey(name); !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	// Written under another name first: a process that runs concurrently reads a complete key or none.
	f, err := os.CreateTemp(dir, "part-key-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(newKey())
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if err := os.Link(f.Name(), name); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return readKey(name)
}

func readKey(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() != keyBytes || info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s is not a key that only this user can read", name)
	}
	key := make([]byte, keyBytes)
	_, err = io.ReadFull(f, key)
	return key, err
}

// partName is what a file is called while it is being copied. Its own name and the state of its source are in it, so that a copy
// continues only with a part of the same: file is what the parts of all states have in common, state what those of one state have. The
// rest is random: a run that continues a part gives it a name of its own first, so that of two runs of one command only one can
// finish it.
func partName(key []byte, j *job) (name, state, file string) {
	file = fmt.Sprintf("%s%x-", partPrefix, digest(key, path.Base(j.toName)))
	source := fmt.Sprintf("%s\x00%d\x00%d", j.from.label(j.fromName), j.size, j.modified.UnixNano())
	state = fmt.Sprintf("%s%x-", file, digest(key, source))
	return state + rand.Text()[:8], state, file
}

// digest is 64 bits that cannot be guessed without the key.
func digest(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	io.WriteString(mac, text)
	return mac.Sum(nil)[:8]
}
