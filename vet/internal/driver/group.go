package driver

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// groups splits the patterns by the module or workspace of their directories, in their order. The go command
// loads one workspace at a time.
func (c Config) groups() ([]Config, error) {
	base, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, err
	}
	home := root(base)
	var list []Config
	at := map[string]int{}
	for _, pattern := range c.Patterns {
		dir, local := strings.CutSuffix(pattern, "...")
		local = local && isPath(pattern) || isPath(pattern)
		in, rest := base, pattern
		if local {
			if !filepath.IsAbs(dir) {
				dir = filepath.Join(base, dir)
			}
			if above := root(dir); above != home {
				rel, err := filepath.Rel(above, dir)
				if err != nil {
					return nil, err
				}
				in, rest = above, "./"+filepath.ToSlash(rel)
				if strings.HasSuffix(pattern, "...") {
					rest = strings.TrimSuffix(rest, "/.") + "/..."
				}
			}
		}
		i, ok := at[in]
		if !ok {
			i = len(list)
			at[in] = i
			group := c
			group.Dir, group.Patterns = in, nil
			list = append(list, group)
		}
		list[i].Patterns = append(list[i].Patterns, rest)
	}
	return list, nil
}

// isPath reports whether a pattern names a directory rather than an import path.
func isPath(pattern string) bool {
	first, _, _ := strings.Cut(filepath.ToSlash(pattern), "/")
	return first == "." || first == ".." || filepath.IsAbs(pattern)
}

// root is the directory of the go.work that applies to dir or, without one, of its go.mod. It is "" where
// there is neither, or where GOWORK names one workspace for all.
func root(dir string) string {
	files := []string{"go.work", "go.mod"}
	switch os.Getenv("GOWORK") {
	case "":
	case "off":
		files = files[1:]
	default:
		return ""
	}
	for _, name := range files {
		for d := range parents(dir) {
			if info, err := os.Stat(filepath.Join(d, name)); err == nil && !info.IsDir() {
				return d
			}
		}
	}
	return ""
}

// parents yields dir and the directories above it.
func parents(dir string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for {
			if !yield(dir) {
				return
			}
			up := filepath.Dir(dir)
			if up == dir {
				return
			}
			dir = up
		}
	}
}

// sameFiles identifies a package's source: two modules with the same files need one analysis.
func sameFiles(path string, files []string) string {
	files = slices.Sorted(slices.Values(files))
	return path + "\x00" + strings.Join(files, "\x00")
}
