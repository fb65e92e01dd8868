package smb

import (
	"errors"
	"time"

	"github.com/spf13/pflag"
)

// options are the flags of all commands; those a command does not have stay zero.
type options struct {
	passwordFile string
	hashFile     string
	domain       string
	kerberos     bool
	sign         bool
	unsigned     bool
	encrypt      bool
	guest        bool
	posix        bool
	stats        bool

	long      bool
	recursive bool
	exact     bool
	json      bool
	parents   bool
	symbolic  bool

	jobs     int
	verify   bool
	anew     bool
	quiet    bool
	progress bool
	window   time.Duration
	flush    bool
}

func (o *options) add(set *pflag.FlagSet) {
	set.StringVar(&o.passwordFile, "password-file", "", "read the password from the first line of `FILE`")
	set.StringVar(&o.hashFile, "nt-hash-file", "", "read the password's NT hash, 32 hexadecimal digits, from the first line of `FILE`")
	set.StringVar(&o.domain, "domain", "", "domain of the user")
	set.BoolVar(&o.kerberos, "kerberos", false, "log on with the tickets of kinit ($KRB5CCNAME)")
	set.BoolVar(&o.sign, "sign", false, "refuse servers that do not sign")
	set.BoolVar(&o.unsigned, "unsigned", false, "sign nothing unless the server requires it")
	set.BoolVar(&o.encrypt, "encrypt", false, "refuse servers that do not encrypt")
	set.BoolVar(&o.guest, "guest", false, "allow a server to log an unknown user on as a guest, unprotected")
	set.BoolVar(&o.posix, "posix", false, "use SMB3's POSIX extensions where the server has them: modes, links, all names")
	set.BoolVar(&o.stats, "stats", false, "show at the end the number of bytes and round trips")
}

func noFlags(*pflag.FlagSet, *options) {}

func recursiveFlag(set *pflag.FlagSet, o *options) {
	set.BoolVarP(&o.recursive, "recursive", "r", false, "include directories and their content")
}

func listFlags(set *pflag.FlagSet, o *options) {
	recursiveFlag(set, o)
	set.BoolVar(&o.json, "json", false, "write one JSON object a line to standard output")
	set.BoolVarP(&o.long, "long", "l", false, "with mode, size and time")
}

func linkFlags(set *pflag.FlagSet, o *options) {
	set.BoolVarP(&o.symbolic, "symbolic", "s", false, "make a symbolic link to the first argument, which is not a URL but a path as the link has it")
}

func mkdirFlags(set *pflag.FlagSet, o *options) {
	set.BoolVarP(&o.parents, "parents", "p", false, "make parent directories too; an existing directory is not an error")
}

func copyFlags(set *pflag.FlagSet, o *options) {
	recursiveFlag(set, o)
	set.BoolVarP(&o.exact, "no-target-directory", "T", false, "a directory becomes the target, also if that is there already")
	set.BoolVar(&o.json, "json", false, "write one JSON object a line to standard output")
	set.IntVarP(&o.jobs, "jobs", "j", 4, "how many files of more than 1 MiB to copy at a time, at most 64; of others sixteen times as many, at most 64")
	set.BoolVar(&o.verify, "verify", false, "read both sides again and compare their SHA-256")
	set.BoolVar(&o.anew, "anew", false, "copy everything again, also what is there already")
	set.BoolVarP(&o.quiet, "quiet", "q", false, "show no progress")
	set.BoolVarP(&o.progress, "progress", "P", false, "show each file when it is copied")
	set.BoolVar(&o.flush, "flush", false, "bring files of up to 64 KiB to a server's stable storage, too, which takes three more round trips each")
	set.DurationVar(&o.window, "time-window", 0, "files of one size are equal when their times differ by less than `TIME`, for servers that store times coarsely")
}

func (o *options) check(set *pflag.FlagSet) error {
	if set.Changed("jobs") && (o.jobs < 1 || o.jobs > 64) {
		return errors.New("-j takes a number from 1 to 64")
	}
	o.jobs = max(o.jobs, 1)
	if o.passwordFile != "" && o.hashFile != "" {
		return errors.New("-password-file and -nt-hash-file exclude each other")
	}
	if o.sign && o.unsigned {
		return errors.New("-sign and -unsigned exclude each other")
	}
	if o.window < 0 {
		return errors.New("-time-window must not be negative")
	}
	return nil
}
