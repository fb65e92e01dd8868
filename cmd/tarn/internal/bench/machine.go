package bench

import (
	"bufio"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"google.golang.org/grpc"
)

// Machine names what the run ran on and with.
type Machine struct {
	CPU   string `json:"cpu"`
	Cores int    `json:"cores"` // that the program may use
	OS    string `json:"os"`
	Arch  string `json:"arch"`
	Go    string `json:"go"`
	Tarn  string `json:"tarn"`
	GRPC  string `json:"grpc"` // grpc-go's version
}

func machine() Machine {
	return Machine{
		CPU:   cpuName(),
		Cores: runtime.GOMAXPROCS(0),
		OS:    runtime.GOOS,
		Arch:  runtime.GOARCH,
		Go:    runtime.Version(),
		Tarn:  tarnVersion(),
		GRPC:  grpc.Version,
	}
}

// cpuName asks the system for the processor's name; where it does not tell, the architecture stands
// for it.
func cpuName() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if key, value, ok := strings.Cut(s.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func tarnVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	const path = "github.com/tarn-go/tarn"
	if info.Main.Path == path {
		return info.Main.Version
	}
	for _, d := range info.Deps {
		if d.Path == path {
			return d.Version
		}
	}
	return "unknown"
}
