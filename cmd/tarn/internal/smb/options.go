package smb

import (
	"errors"
	"flag"
)

// options are the flags of all commands; those a command does not have stay zero.
type options struct {
	passwordFile string
	domain       string
	kerberos     bool
	sign         bool
	encrypt      bool

	long      bool
	recursive bool

	jobs   int
	verify bool
	anew   bool
	quiet  bool
}

func (o *options) add(set *flag.FlagSet) {
	set.StringVar(&o.passwordFile, "password-file", "", "read the password from the first line of `FILE`")
	set.StringVar(&o.domain, "domain", "", "domain of the user")
	set.BoolVar(&o.kerberos, "kerberos", false, "log on with the tickets of kinit ($KRB5CCNAME)")
	set.BoolVar(&o.sign, "sign", false, "refuse servers that do not sign")
	set.BoolVar(&o.encrypt, "encrypt", false, "refuse servers that do not encrypt")
}

func noFlags(*flag.FlagSet, *options) {}

func recursiveFlag(set *flag.FlagSet, o *options) {
	set.BoolVar(&o.recursive, "r", false, "directories and all that is in them")
}

func listFlags(set *flag.FlagSet, o *options) {
	recursiveFlag(set, o)
	set.BoolVar(&o.long, "l", false, "with mode, size and time")
}

func copyFlags(set *flag.FlagSet, o *options) {
	recursiveFlag(set, o)
	set.IntVar(&o.jobs, "j", 4, "how many files to copy at a `time`, at most 64")
	set.BoolVar(&o.verify, "verify", false, "read both sides again and compare their SHA-256")
	set.BoolVar(&o.anew, "anew", false, "copy everything again, also what is there already")
	set.BoolVar(&o.quiet, "q", false, "show no progress")
}

func (o *options) check() error {
	if o.jobs < 0 || o.jobs > 64 {
		return errors.New("-j takes a number from 1 to 64")
	}
	o.jobs = max(o.jobs, 1)
	return nil
}
