package main

import (
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// The servers in other languages: the same echo, with the same messages.
//
//go:embed tonic/Cargo.toml tonic/build.rs tonic/src/main.rs cpp/echo.proto cpp/server.cc
var sources embed.FS

// foreign builds the servers in other languages. One that cannot be built is named and left out.
func foreign(_, dir string) []contestant {
	var list []contestant
	for _, f := range []struct {
		name  string
		build func(dir string) (string, error)
	}{{"tonic", tonic}, {"grpc-cpp", cpp}} {
		program, err := f.build(dir)
		if err != nil {
			fmt.Fprintf(os.Stderr, "neutral: %s is left out: %v\n", f.name, err)
			continue
		}
		list = append(list, contestant{f.name, []string{program}})
	}
	return list
}

// unpack writes one folder of the sources below dir.
func unpack(dir string, names ...string) error {
	for _, name := range names {
		data, err := sources.ReadFile(name)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func command(dir, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

func tonic(dir string) (string, error) {
	if err := unpack(dir, "tonic/Cargo.toml", "tonic/build.rs", "tonic/src/main.rs"); err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	target := filepath.Join(cache, "tarn-neutral")
	if err := command(filepath.Join(dir, "tonic"), "cargo", "build", "--release", "--quiet", "--target-dir", target); err != nil {
		return "", err
	}
	return filepath.Join(target, "release", "echo"), nil
}

func cpp(dir string) (string, error) {
	if err := unpack(dir, "cpp/echo.proto", "cpp/server.cc"); err != nil {
		return "", err
	}
	at := filepath.Join(dir, "cpp")
	plugin, err := exec.LookPath("grpc_cpp_plugin")
	if err != nil {
		return "", fmt.Errorf("%w (Debian: protobuf-compiler-grpc, libgrpc++-dev, libprotobuf-dev, pkg-config)", err)
	}
	if err := command(at, "protoc", "--cpp_out=.", "--grpc_out=.", "--plugin=protoc-gen-grpc="+plugin, "echo.proto"); err != nil {
		return "", err
	}
	if err := command(at, "sh", "-c", "g++ -O2 -o server server.cc echo.pb.cc echo.grpc.pb.cc $(pkg-config --cflags --libs grpc++ protobuf)"); err != nil {
		return "", err
	}
	return filepath.Join(at, "server"), nil
}
