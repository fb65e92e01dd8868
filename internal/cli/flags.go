package cli

import (
	"errors"
	"flag"
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
				io.WriteString(help, usage) // a reader that has gone away wants no help
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
