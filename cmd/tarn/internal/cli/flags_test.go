package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// try runs a command with flags -n, -long and -b, and returns what it was given.
func try(t *testing.T, fails error, args ...string) (status int, got []string, n int, long string, out, errs string) {
	t.Helper()
	var o, e strings.Builder
	c := &cobra.Command{Use: "try", Short: "try it", RunE: func(_ *cobra.Command, args []string) error {
		got = args
		return fails
	}}
	c.Flags().IntVarP(&n, "number", "n", 0, "a number")
	c.Flags().StringVar(&long, "long", "", "a `TEXT`")
	c.Flags().BoolP("both", "b", false, "")
	status = Run(t.Context(), c, args, Streams{In: strings.NewReader(""), Out: &o, Err: &e})
	return status, got, n, long, o.String(), e.String()
}

func TestFlagsAnywhere(t *testing.T) {
	for _, args := range []string{"-n 3 -long x a b", "a -n=3 --long x b", "a b -n3 -long=x", "-number 3 a -bn 3 b --long=x", "-n 3 -long x -- a b"} {
		if status, got, n, long, _, errs := try(t, nil, strings.Fields(args)...); status != OK || n != 3 || long != "x" || !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("%s: %d, n %d, long %q, %q: %s", args, status, n, long, got, errs)
		}
	}
	if status, got, _, _, _, _ := try(t, nil, "a", "--", "-long", "--"); status != OK || !slices.Equal(got, []string{"a", "-long", "--"}) {
		t.Errorf("%d, %q", status, got)
	}
}

func TestHelp(t *testing.T) {
	for _, flag := range []string{"-h", "-help", "--help"} {
		status, _, _, _, out, errs := try(t, nil, "a", flag)
		if status != OK || errs != "" || !strings.Contains(out, "--long TEXT") || !strings.Contains(out, "Exit status: 0") {
			t.Errorf("%s: %d %q %q", flag, status, out, errs)
		}
	}
}

func TestStatus(t *testing.T) {
	for _, c := range []struct {
		err    error
		args   string
		status int
		says   string
	}{
		{nil, "-what", Usage, "tarn try: unknown flag: --what\n"},
		{nil, "-numbre=3", Usage, "tarn try: unknown flag: --numbre\n"},
		{nil, "-bx", Usage, "tarn try: unknown flag: --bx\n"},
		{nil, "-x", Usage, "tarn try: unknown shorthand flag: 'x' in -x\n"},
		{nil, "--what", Usage, "tarn try: unknown flag: --what\n"},
		{errors.New("wrong"), "", Usage, "tarn try: wrong\n"},
		{Fail(errors.New("no\nway")), "", Failed, "tarn try: no way\n"},
		{Status(Failed), "", Failed, ""},
	} {
		status, _, _, _, out, errs := try(t, c.err, strings.Fields(c.args)...)
		if status != c.status || errs != c.says || out != "" {
			t.Errorf("%v %s: %d, %q, %q", c.err, c.args, status, errs, out)
		}
	}
}

// TestInterrupted says what ended a command, not what a context says of it.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var errs strings.Builder
	c := &cobra.Command{Use: "try", RunE: func(cmd *cobra.Command, _ []string) error {
		cancel()
		return Fail(fmt.Errorf("loading: %w", cmd.Context().Err()))
	}}
	if status := Run(ctx, c, nil, Streams{In: strings.NewReader(""), Out: io.Discard, Err: &errs}); status != Failed || errs.String() != "tarn try: interrupted\n" {
		t.Errorf("%d %q", status, errs.String())
	}
}
