// Command cmd runs a Samba server of package rig until its standard input ends, and
// prints how to reach it: SMB_ADDR, SMB_USER, SMB_PASSWORD, SMB_SHARE, SMB_DIR.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/tarn-go/tarn/internal/rig"
)

func main() { os.Exit(run()) }

func run() int {
	mode := flag.String("mode", "plain", "plain, signed or encrypted")
	var cfg rig.Config
	flag.Func("global", "a line for [global]; may be repeated", func(s string) error {
		cfg.Global = append(cfg.Global, s)
		return nil
	})
	flag.Parse()
	switch *mode {
	case "plain":
		cfg.Mode = rig.Plain
	case "signed":
		cfg.Mode = rig.Signed
	case "encrypted":
		cfg.Mode = rig.Encrypted
	default:
		fmt.Fprintln(os.Stderr, "rig: unknown mode", *mode)
		return 2
	}
	s, err := rig.New(cfg)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer s.Stop()
	fmt.Printf("SMB_ADDR=%s SMB_USER=%s SMB_PASSWORD=%s SMB_SHARE=%s SMB_DIR=%s\n", s.Addr, s.User, s.Password, s.Share, s.Dir)
	io.Copy(io.Discard, os.Stdin)
	return 0
}
