package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
)

// Parse reads flags that stand before, between or behind a command's other arguments, and returns
// those in their order. Errors are returned, not printed. Asked for help, it writes usage and the
// flags to help and returns flag.ErrHelp.
func Parse(flags *flag.FlagSet, args []string, usage string, help io.Writer) ([]string, error) {
	flags.SetOutput(io.Discard)
	var others []string
	for {
		if err := flags.Parse(args); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				io.WriteString(help, usage) // an error is ignored: flag.ErrHelp is returned in any case
				flags.SetOutput(help)
				flags.PrintDefaults()
			}
			return nil, err
		}
		if flags.NArg() == 0 {
			return others, nil
		}
		others = append(others, flags.Arg(0))
		args = flags.Args()[1:]
	}
}

// Finish runs a command if its arguments could be parsed, and returns its exit status. It writes an error
// to errs in one line that begins with the command's name; flag.ErrHelp is not an error.
func Finish(name string, parsed error, errs io.Writer, run func() error) int {
	switch {
	case errors.Is(parsed, flag.ErrHelp):
		return OK
	case parsed != nil:
		fmt.Fprintf(errs, "%s: %v\n", name, parsed)
		return Usage
	}
	if err := run(); err != nil {
		fmt.Fprintf(errs, "%s: %v\n", name, err)
		return Failed
	}
	return OK
}
