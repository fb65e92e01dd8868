package smb

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
	"github.com/tarn-go/tarn/internal/umask"
	client "github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/krb5"
)

// app is one run of a command.
type app struct {
	name string
	opts options
	std  cli.Streams
	// waits are the pauses before each new attempt when the connection breaks while a file is copied.
	waits []time.Duration
	// limits are those of the sessions; the client's own where they are zero.
	limits client.Limits
	// partKey is partKey's, the same each time.
	partKey func() (key []byte, kept bool)
	// umask is what new files and directories on servers do not permit, where those have the POSIX extensions.
	umask fs.FileMode

	sessions map[string]*client.Session
	shares   map[string]*client.Share
	logins   map[string]client.Initiator
	kerberos *krb5.Initiator
	traffic  traffic

	mu    sync.Mutex // guards meter and writing to std
	meter *meter     // writes to std.Err while it runs
}

func newApp(name string, opts options, std cli.Streams) *app {
	a := &app{name: name, opts: opts, std: std, partKey: sync.OnceValues(partKey),
		waits:    []time.Duration{time.Second, 3 * time.Second, 6 * time.Second},
		sessions: map[string]*client.Session{}, shares: map[string]*client.Share{}, logins: map[string]client.Initiator{}}
	if opts.posix {
		a.umask = umask.Get()
	}
	return a
}

// close logs off.
func (a *app) close() {
	for s := range maps.Values(a.sessions) {
		s.Logoff(context.Background())
	}
	if a.kerberos != nil {
		a.kerberos.Close()
	}
}

// complain writes one line to standard error, after it has erased the progress bar.
func (a *app) complain(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.meter.clear()
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ")
	fmt.Fprintf(a.std.Err, "tarn smb %s: %s\n", a.name, printable(text)) // a server chose some of it
}

// account says which session a location needs.
func (l location) account() string { return l.domain + ";" + l.user + "@" + l.addr }

// session is the session with the location's server, logged on to once a run. The password is asked for once, also if the server
// cannot be reached.
func (a *app) session(ctx context.Context, l location) (*client.Session, error) {
	key := l.account()
	if s := a.sessions[key]; s != nil {
		return s, nil
	}
	initiator := a.logins[key]
	if initiator == nil {
		var err error
		if initiator, err = a.initiator(ctx, l); err != nil {
			return nil, err
		}
		a.logins[key] = initiator
	}
	d := client.Dialer{Initiator: initiator, RequireSigning: a.opts.sign, RequireEncryption: a.opts.encrypt,
		AllowGuest: a.opts.guest, AllowUnsigned: a.opts.unsigned, POSIX: a.opts.posix, Limits: a.limits}
	if a.opts.stats {
		d.DialFunc = a.traffic.dial
	}
	s, err := d.Dial(ctx, l.addr)
	if err != nil {
		return nil, a.refused(l, l.addr, err)
	}
	a.sessions[key] = s
	return s, nil
}

// refused is err of place, which the server of l may have refused because the user was left out.
func (a *app) refused(l location, place string, err error) error {
	if l.user == "" && !a.opts.kerberos && (errors.Is(err, fs.ErrPermission) || errors.Is(err, client.ErrLogin)) {
		place += ": anonymous, as the URL has no user"
	}
	return fmt.Errorf("%s: %w", place, err)
}

// share is the location's share, mounted once a run.
func (a *app) share(ctx context.Context, l location) (*client.Share, error) {
	if l.share == "" {
		return nil, usageError("%s has no share", l)
	}
	key := l.account() + "/" + l.share
	if m := a.shares[key]; m != nil {
		return m, nil
	}
	s, err := a.session(ctx, l)
	if err != nil {
		return nil, err
	}
	m, err := s.Mount(ctx, l.share)
	if err != nil {
		return nil, a.refused(l, l.String(), err)
	}
	m = m.WithContext(ctx)
	a.shares[key] = m
	return m, nil
}

func (a *app) initiator(ctx context.Context, l location) (client.Initiator, error) {
	if a.opts.kerberos {
		return a.ticketInitiator()
	}
	domain := l.domain
	if domain == "" {
		domain = a.opts.domain
	}
	if l.user == "" {
		return client.NTLM{}, nil
	}
	hash, err := a.hash()
	if err != nil {
		return nil, err
	}
	if hash != nil {
		return client.NTLM{User: l.user, Hash: hash, Domain: domain}, nil
	}
	password, err := a.password(ctx, l)
	if err != nil {
		return nil, err
	}
	return client.NTLM{User: l.user, Password: password, Domain: domain}, nil
}

func (a *app) ticketInitiator() (client.Initiator, error) {
	if a.kerberos != nil {
		return a.kerberos, nil
	}
	cache := os.Getenv("KRB5CCNAME")
	if cache == "" {
		cache = fmt.Sprintf("/tmp/krb5cc_%d", os.Getuid())
	}
	i, err := krb5.New(krb5.Config{CCache: cache})
	if err != nil {
		return nil, err
	}
	a.kerberos = i
	return i, nil
}

// maxSecret bounds, in bytes, what is read of a file with a password or a hash.
const maxSecret = 4096

// secretLine is the first line of a file.
func secretLine(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSecret))
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSuffix(line, "\r"), nil
}

// hash is the NT hash given in place of a password, nil when none is given.
func (a *app) hash() ([]byte, error) {
	digits, from := os.Getenv("SMB_NT_HASH"), "SMB_NT_HASH"
	if a.opts.hashFile != "" {
		var err error
		if digits, err = secretLine(a.opts.hashFile); err != nil {
			return nil, fmt.Errorf("NT hash: %w", err)
		}
		from = a.opts.hashFile
	} else if digits == "" || a.opts.passwordFile != "" {
		return nil, nil
	}
	hash, err := hex.DecodeString(strings.TrimSpace(digits))
	if err != nil || len(hash) != 16 {
		return nil, usageError("%s has no NT hash: 32 hexadecimal digits", from)
	}
	return hash, nil
}

// password is that of the location's user: from a file, the environment or the prompt.
func (a *app) password(ctx context.Context, l location) (string, error) {
	if a.opts.passwordFile != "" {
		p, err := secretLine(a.opts.passwordFile)
		if err != nil {
			return "", fmt.Errorf("password file: %w", err)
		}
		return p, nil
	}
	if p, ok := os.LookupEnv("SMB_PASSWORD"); ok {
		return p, nil
	}
	in, ok := a.std.In.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return "", errors.New("no password: set SMB_PASSWORD or -password-file, or run it in a terminal")
	}
	return a.prompt(ctx, in, fmt.Sprintf("Password of %s at %s: ", l.user, l.addr))
}

// prompt reads a password from a terminal. A read of a terminal cannot be interrupted: when ctx
// ends, as Ctrl-C has it, the terminal shows again what is typed, and the read is abandoned with
// the process.
func (a *app) prompt(ctx context.Context, in *os.File, text string) (string, error) {
	fd := int(in.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", fmt.Errorf("reading the password: %w", err)
	}
	fmt.Fprint(a.std.Err, text)
	type answer struct {
		password []byte
		err      error
	}
	done := make(chan answer, 1)
	go func() {
		b, err := term.ReadPassword(fd)
		done <- answer{b, err}
	}()
	select {
	case got := <-done:
		fmt.Fprintln(a.std.Err)
		if got.err != nil {
			return "", fmt.Errorf("reading the password: %w", got.err)
		}
		return string(got.password), nil
	case <-ctx.Done():
		term.Restore(fd, before) // an error cannot be handled here
		fmt.Fprintln(a.std.Err)
		return "", ctx.Err()
	}
}

// explain rewords frequent errors; others are shown as they are.
func explain(err error) string {
	if errors.Is(err, client.ErrGuest) {
		return "the server accepted the user as a guest, without checking the password (-guest allows that)"
	}
	var status client.Status
	if errors.As(err, &status) {
		if h := hint(status.Error()); h != "" {
			return fmt.Sprintf("%v (%s)", err, h)
		}
	}
	if errors.Is(err, client.ErrName) {
		return fmt.Sprintf(`%v (SMB has no names with one of \ : * ? " < > | or a control character, or of more than 255 characters)`, err)
	}
	var dns *net.DNSError
	if errors.As(err, &dns) && dns.IsNotFound {
		return fmt.Sprintf("%s: no such host", dns.Name)
	}
	// A connection that could not be made is not reported as lost.
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return fmt.Sprintf("cannot connect to %s: %v", op.Addr, op.Err)
	}
	return err.Error()
}
