package cli

import (
	"errors"
	"flag"
	"io"
	"slices"
	"strings"
	"testing"
)

func TestParseTakesFlagsAnywhere(t *testing.T) {
	for _, args := range []string{"-n 3 a b", "a -n 3 b", "a b -n=3"} {
		flags := flag.NewFlagSet("test", flag.ContinueOnError)
		n := flags.Int("n", 0, "a number")
		others, err := Parse(flags, strings.Fields(args), "", io.Discard)
		if err != nil || *n != 3 || !slices.Equal(others, []string{"a", "b"}) {
			t.Errorf("%s: n %d, others %q, %v", args, *n, others, err)
		}
	}
}

func TestParseHelps(t *testing.T) {
	flags := flag.NewFlagSet("test", flag.ContinueOnError)
	flags.Int("n", 0, "a number")
	var help strings.Builder
	if _, err := Parse(flags, []string{"a", "-h"}, "usage: test\n", &help); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-h: %v", err)
	}
	if got := help.String(); !strings.HasPrefix(got, "usage: test\n") || !strings.Contains(got, "a number") {
		t.Errorf("help is %q", got)
	}
}

func TestParsePrintsNoError(t *testing.T) {
	flags := flag.NewFlagSet("test", flag.ContinueOnError)
	var help strings.Builder
	if _, err := Parse(flags, []string{"-what"}, "usage", &help); err == nil || help.Len() > 0 {
		t.Errorf("an unknown flag: %v, printed %q", err, help.String())
	}
}
