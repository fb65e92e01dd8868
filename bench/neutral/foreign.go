package main

import (
	"embed"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// The servers in other languages: the same echo, with the same messages.
//
//go:embed tonic/Cargo.toml tonic/build.rs tonic/src/main.rs connect/Cargo.toml connect/build.rs connect/src/main.rs cpp/echo.proto cpp/server.cc
var sources embed.FS

// foreign is a server in another language.
type foreign struct {
	name     string
	protocol []protocol
	build    func(dir string) (program string, err error)
}

func foreigners() []foreign {
	both := []protocol{grpcOverHTTP2, connectOverHTTP2}
	return []foreign{
		{"tonic", both[:1], func(dir string) (string, error) { return cargo(dir, "tonic", "echo") }},
		{"tonic+mimalloc", both[:1], func(dir string) (string, error) { return cargo(dir, "tonic", "echo", "--features", "mimalloc") }},
		{"connect-rust", both, func(dir string) (string, error) { return cargo(dir, "connect", "echo-connect") }},
		{"connect-rust+mimalloc", both, func(dir string) (string, error) {
			return cargo(dir, "connect", "echo-connect", "--features", "mimalloc")
		}},
		{"grpc-cpp", both[:1], cpp},
	}
}

// buildForeign builds the servers in other languages below dir. One that cannot be built is named and left out.
func buildForeign(dir string) []contestant {
	var list []contestant
	for _, f := range foreigners() {
		program, err := f.build(dir)
		if err != nil {
			log.Printf("%s is left out: %v", f.name, err)
			continue
		}
		list = append(list, contestant{f.name, []string{program}, f.protocol})
	}
	return list
}

// unpack writes files of the sources below dir.
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

// cargo builds a folder of the sources with features, and returns a copy of its program, which the next build does not overwrite.
func cargo(dir, folder, program string, args ...string) (string, error) {
	if err := unpack(dir, folder+"/Cargo.toml", folder+"/build.rs", folder+"/src/main.rs"); err != nil {
		return "", err
	}
	at := filepath.Join(dir, folder)
	if err := writeDescriptor(filepath.Join(at, "echo.binpb")); err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	target := filepath.Join(cache, "tarn-neutral")
	if err := command(at, "cargo", append([]string{"build", "--release", "--quiet", "--target-dir", target}, args...)...); err != nil {
		return "", err
	}
	built, err := os.ReadFile(filepath.Join(target, "release", program))
	if err != nil {
		return "", err
	}
	to := filepath.Join(at, fmt.Sprint(program, len(args)))
	return to, os.WriteFile(to, built, 0o700)
}

// writeDescriptor writes what protoc makes of cpp/echo.proto.
func writeDescriptor(name string) error {
	field := func(name string, number int32, t descriptorpb.FieldDescriptorProto_Type, of string) *descriptorpb.FieldDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{Name: &name, JsonName: &name, Number: &number, Type: &t, Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
		if of != "" {
			f.TypeName = &of
		}
		return f
	}
	message := func(name string, fields ...*descriptorpb.FieldDescriptorProto) *descriptorpb.DescriptorProto {
		return &descriptorpb.DescriptorProto{Name: &name, Field: fields}
	}
	const inner = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
	data, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{
		Name: proto.String("echo.proto"), Package: proto.String("grpc.testing"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			message("Payload", field("type", 1, descriptorpb.FieldDescriptorProto_TYPE_INT32, ""), field("body", 2, descriptorpb.FieldDescriptorProto_TYPE_BYTES, "")),
			message("SimpleRequest", field("payload", 3, inner, ".grpc.testing.Payload")),
			message("SimpleResponse", field("payload", 1, inner, ".grpc.testing.Payload")),
		},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("TestService"), Method: []*descriptorpb.MethodDescriptorProto{{
			Name: proto.String("UnaryCall"), InputType: proto.String(".grpc.testing.SimpleRequest"), OutputType: proto.String(".grpc.testing.SimpleResponse"),
		}}}},
	}}})
	if err != nil {
		return err
	}
	return os.WriteFile(name, data, 0o600)
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
