package child

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/leftout"
)

// childEnv has the test binary be the child.
const childEnv = "TARN_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(childEnv) {
	case "":
		os.Exit(m.Run())
	case "serve":
		ended := make(chan struct{})
		if _, err := Listen(func() { close(ended) }); err != nil {
			os.Exit(1)
		}
		<-ended
	case "answer":
		fmt.Println("address")
		var b [1]byte
		for n, err := os.Stdin.Read(b[:]); n == 1 && err == nil; n, err = os.Stdin.Read(b[:]) {
			fmt.Println("answer")
		}
		os.Exit(3)
	}
}

func start(t *testing.T, as string) (*Process, error) {
	t.Helper()
	cmd, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), childEnv+"="+as)
	return Start(cmd)
}

func TestProcess(t *testing.T) {
	if err := Readable(); err != nil {
		leftout.Skip(t, "processor time and memory are read from Linux' /proc")
	}
	p, err := start(t, "serve")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Times(); err != nil {
		t.Error(err)
	}
	if m, err := p.Memory(); err != nil || m.Now <= 0 || m.Peak < m.Now {
		t.Errorf("memory is %v, %v", m, err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestAsk(t *testing.T) {
	p, err := start(t, "answer")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.Ask(); got != "answer" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if err := p.Close(); err == nil {
		t.Error("a child that failed ended without an error")
	}
}

func TestStartOfWhatEnds(t *testing.T) {
	if p, err := start(t, "nothing"); err == nil {
		p.Kill()
		t.Fatal("a child without an address has started")
	}
}

func TestKill(t *testing.T) {
	p, err := start(t, "serve")
	if err != nil {
		t.Fatal(err)
	}
	p.Kill()
	if _, err := p.Times(); err == nil {
		t.Error("there are times of a process that has ended")
	}
}

func TestParse(t *testing.T) {
	got, err := parseStat([]byte("7 (a) b) S 1 1 1 0 -1 4 0 0 0 0 250 50 0 0 20"))
	if want := (Times{User: 2500 * time.Millisecond, Kernel: 500 * time.Millisecond}); got != want || err != nil {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	if _, err := parseStat([]byte("7 (a) S 1")); !errors.Is(err, errProc) {
		t.Errorf("got %v", err)
	}
	if m, err := parseMemory([]byte("Name:\ta\nVmHWM:\t   12 kB\nVmRSS:\t 8 kB\n")); m != (Memory{Now: 8 << 10, Peak: 12 << 10}) || err != nil {
		t.Errorf("got %v, %v", m, err)
	}
	if _, err := parseMemory(nil); !errors.Is(err, errProc) {
		t.Errorf("got %v", err)
	}
}
