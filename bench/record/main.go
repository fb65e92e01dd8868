// Command record runs real programs on pooled buffers and records their gets and frees as the
// traces under sizing/testdata/traces:
//
//	cd bench && go run ./record [-gets N] [-dir ../sizing/testdata/traces] [proxy|grpc|files|smb ...]
//
// Without names it records all of them, smb only with a server in the environment: SMB_ADDR, SMB_USER,
// SMB_PASSWORD and SMB_SHARE. Each program serves real traffic on loopback sockets until N gets were
// noted. Sizes repeat from run to run; the order of events depends on the scheduler.
package main

import (
	"compress/gzip"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/sizing"
)

// program serves traffic with buffers from a recorder until enough gets are recorded, and returns a description.
type program struct {
	name string
	run  func(r *recorder, gets int) (note string, err error)
}

func programs() []program {
	list := []program{{"proxy", runProxy}, {"grpc", runGRPC}, {"files", runFiles}}
	if os.Getenv("SMB_ADDR") != "" {
		list = append(list, program{"smb", runSMB})
	}
	return list
}

func main() {
	log.SetFlags(0)
	gets := flag.Int("gets", 20000, "gets to record of each program")
	dir := flag.String("dir", "../sizing/testdata/traces", "directory to write NAME.trace.gz into")
	flag.Parse()
	if wanted("smb", flag.Args()) && os.Getenv("SMB_ADDR") == "" {
		log.Print("record: smb is left out: SMB_ADDR names no server")
	}
	for _, p := range programs() {
		if !wanted(p.name, flag.Args()) {
			continue
		}
		if err := record(p, *gets, filepath.Join(*dir, p.name+".trace.gz")); err != nil {
			log.Fatalf("record: %s: %v", p.name, err)
		}
	}
}

func wanted(name string, names []string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return len(names) == 0
}

func record(p program, gets int, file string) error {
	pool, err := tarn.NewPool(tarn.PoolConfig{Name: "record-" + p.name})
	if err != nil {
		return err
	}
	r := newRecorder(pool)
	note, err := p.run(r, gets)
	if err != nil {
		return err
	}
	t := r.trace(note, fmt.Sprintf("%s %s/%s, go run ./bench/record %s", runtime.Version(), runtime.GOOS, runtime.GOARCH, p.name))
	if err := write(t, file); err != nil {
		return err
	}
	o, err := sizing.Simulate(t, sizing.Replay{Classes: pool.Classes(), Retain: 64 << 20})
	if err != nil {
		return err
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	fmt.Printf("%-6s %d events, %d sizes, %d bytes of file; pool's own ladder: waste %.1f%%, hits %.1f%%, peak %d bytes, %d never freed\n",
		p.name, len(t.Events), len(t.Histogram().Sizes), info.Size(), 100*o.WasteShare(), 100*o.HitRate(), o.PeakInUse, o.Out)
	return nil
}

func write(t sizing.Trace, file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := t.WriteTo(z); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return f.Close()
}
