package bench

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/tarn-go/tarn/internal/cputime"
	"google.golang.org/grpc"
)

// Machine describes the machine of a run and the versions of its software.
type Machine struct {
	CPU   string `json:"cpu"`
	Cores int    `json:"cores"` // that the program may use
	OS    string `json:"os"`
	Arch  string `json:"arch"`
	Go    string `json:"go"`
	Tarn  string `json:"tarn"`
	GRPC  string `json:"grpc"` // grpc-go's version

	// Load is the system's load average of the minute before the run; 0 where the system does not
	// report it.
	Load float64 `json:"load"`
}

// Busy returns advice when other programs loaded the machine; otherwise it returns "".
func (m Machine) Busy() string {
	if m.Load <= float64(m.Cores)/2 {
		return ""
	}
	return fmt.Sprintf("The machine was busy when this began (load %.1f on %d cores): close other programs and repeat. The ranges of this run are more reliable than its medians.", m.Load, m.Cores)
}

func machine() Machine {
	return Machine{
		CPU:   cputime.Model(),
		Cores: runtime.GOMAXPROCS(0),
		OS:    runtime.GOOS,
		Arch:  runtime.GOARCH,
		Go:    runtime.Version(),
		Tarn:  tarnVersion(),
		GRPC:  grpc.Version,
		Load:  loadAverage(),
	}
}

// loadAverage asks the system for its load average over a minute.
func loadAverage() float64 {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(b), " ")
	v, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return v
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
