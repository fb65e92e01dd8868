package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
)

// Status is an error that has been reported, and the exit status that it means.
type Status int

func (s Status) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// failure is the error of a command that was understood.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// Fail marks err as one that is not about the command line, so that its status is [Failed]; nil stays nil.
func Fail(err error) error {
	if err == nil {
		return nil
	}
	return failure{err}
}

// StreamsOf returns the streams that a command was started with.
func StreamsOf(cmd *cobra.Command) Streams {
	return Streams{In: cmd.InOrStdin(), Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr()}
}

// Root is the command "tarn" with those commands.
func Root(commands ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{Use: "tarn", Short: "measure, watch and tune buffer pools; use SMB servers",
		SilenceErrors: true, SilenceUsage: true, DisableSuggestions: true}
	root.SetUsageTemplate(root.UsageTemplate() +
		"\nExit status: 0 if all was done, 1 if something was not, 2 if the command line is wrong.\n")
	root.AddCommand(commands...)
	return root
}

// Run runs one command of [Root] with args and returns its exit status.
func Run(ctx context.Context, command *cobra.Command, args []string, std Streams) int {
	return Execute(ctx, Root(command), append([]string{command.Name()}, args...), std)
}

// Execute runs a command with args and returns its exit status: [OK], [Failed] or [Usage]. It writes an error to std.Err, in one
// line that begins with the command's name. Long flags may have one hyphen in front of them or two. Canceling ctx ends the command
// gracefully.
func Execute(ctx context.Context, root *cobra.Command, args []string, std Streams) int {
	root.SetIn(std.In)
	root.SetOut(std.Out)
	root.SetErr(std.Err)
	root.SetArgs(hyphens(root, args))
	command, err := root.ExecuteContextC(ctx)
	var status Status
	switch {
	case err == nil:
		return OK
	case errors.As(err, &status):
		return int(status)
	}
	text := strings.ReplaceAll(err.Error(), "\n", " ")
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		text = "interrupted"
	}
	fmt.Fprintf(std.Err, "%s: %s\n", command.CommandPath(), text)
	if errors.As(err, new(failure)) {
		return Failed
	}
	return Usage
}

// hyphens gives the long flags among args, which may have one hyphen in front as those of package flag, two. What is not known as
// letters either becomes a long flag, too, so that it is refused by its name.
func hyphens(root *cobra.Command, args []string) []string {
	out := make([]string, 0, len(args))
	command := root
	for i, arg := range args {
		if arg == "--" {
			return append(out, args[i:]...)
		}
		for _, c := range command.Commands() {
			if c.Name() == arg {
				command = c
				break
			}
		}
		if name, ok := strings.CutPrefix(arg, "-"); ok && !strings.HasPrefix(name, "-") {
			name, _, _ = strings.Cut(name, "=")
			if len(name) > 1 && (command.Flag(name) != nil || !areLetters(command, name)) {
				arg = "-" + arg
			}
		}
		out = append(out, arg)
	}
	return out
}

// areLetters reports whether name, behind one hyphen, is a letter with a number, as in -j8, or letters of flags of which the last alone
// may have a value, as in -lr. Otherwise it is a long flag, or none: -output is not -o with the value "utput".
func areLetters(command *cobra.Command, name string) bool {
	for i, letter := range name {
		f := command.Flags().ShorthandLookup(string(letter))
		switch {
		case letter > unicode.MaxASCII || f == nil:
			return false
		case f.NoOptDefVal == "":
			return i == len(name)-1 || strings.Trim(name[i+1:], "0123456789") == ""
		}
	}
	return true
}
