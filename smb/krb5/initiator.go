package krb5

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/keytab"

	"github.com/tarn-go/tarn/smb"
)

var (
	// ErrConfig is matched when a [Config], or a file that it names, is invalid.
	ErrConfig = errors.New("krb5: bad configuration")
	// ErrTicket is matched when the KDC issued no ticket: a wrong password, an unknown service, clocks that
	// differ, or no reachable KDC. If the KDC refused the credentials the error matches fs.ErrPermission, too,
	// and so smb.ErrLogin where smb reports it.
	ErrTicket = errors.New("krb5: no ticket for the server")
	// ErrServer is matched when the server's answer is malformed, or is a Kerberos error.
	ErrServer = errors.New("krb5: bad answer from the server")
	// ErrClockSkew is matched, besides ErrTicket or ErrServer, when the KDC's clock, or the server's, differs from that of this machine
	// by more than Kerberos permits, mostly five minutes. After the clocks have been set a new attempt succeeds.
	ErrClockSkew = errors.New("the clocks of this machine and of the KDC or server differ too much and must be set")
)

// Config holds the credentials: the principal and one of Password, Keytab and CCache.
type Config struct {
	// User and Realm are the principal. They may be "" with a CCache, which contains them; Realm "" is the
	// default realm of the configuration.
	User, Realm string
	// Password of the user.
	Password string
	// Keytab is the path of a file with the user's keys.
	Keytab string
	// CCache is the path of a credential cache, with or without "FILE:" before it. When its ticket has expired the file is
	// read again: another program, such as kinit, may have renewed it.
	CCache string
	// ConfigFile is the path of krb5.conf; "" is $KRB5_CONFIG or /etc/krb5.conf. Without that file, KDCs are
	// looked up in DNS.
	ConfigFile string
	// SPN is the service's principal; "" is "cifs/" and the host dialled.
	SPN string
}

// Initiator starts Kerberos authentications. It keeps tickets and renews them before they expire. It is safe
// for concurrent use.
type Initiator struct {
	spn string

	// kdcLock is held while client is used, which is not safe for concurrent use although its documentation says
	// so.
	kdcLock sync.Mutex
	client  *client.Client
	reload  func() (*client.Client, error) // reads the credential cache; nil: there is none

	mu          sync.Mutex // guards the following fields
	kdcRequests int        // running requests, including those whose caller has returned
	closed      bool       // the last conversation destroys client, unless it is borrowed
	borrowed    bool       // client belongs to the caller of FromClient
}

var _ smb.Initiator = (*Initiator)(nil)

// New makes an initiator. It reads the files that cfg names but sends no request to a KDC yet. The error
// matches [ErrConfig].
func New(cfg Config) (*Initiator, error) {
	conf, err := loadConfig(cfg)
	if err != nil {
		return nil, err
	}
	approve(conf)
	realm := cfg.Realm
	if realm == "" {
		realm = conf.LibDefaults.DefaultRealm
	}
	cl, err := newClient(cfg, realm, conf)
	if err != nil {
		return nil, err
	}
	i := &Initiator{client: cl, spn: cfg.SPN}
	if cfg.CCache != "" {
		i.reload = func() (*client.Client, error) { return newClient(cfg, realm, conf) }
	}
	return i, nil
}

// FromClient makes an initiator from the caller's gokrb5 client, which it borrows until Close and does not
// destroy. spn is the service's principal; "" is "cifs/" and the host dialled. The client must be configured
// without FAST when the KDC does not support it.
func FromClient(cl *client.Client, spn string) *Initiator {
	return &Initiator{client: cl, spn: spn, borrowed: true}
}

func newClient(cfg Config, realm string, conf *config.Config) (*client.Client, error) {
	// some KDCs answer an offer of FAST with an error
	settings := client.DisablePAFXFAST(true)
	if cfg.CCache != "" {
		cache, err := loadCCache(strings.TrimPrefix(cfg.CCache, "FILE:"))
		if err != nil {
			return nil, fmt.Errorf("%w: credential cache: %w", ErrConfig, err)
		}
		cl, err := client.NewFromCCache(cache, conf, settings)
		if err != nil {
			return nil, fmt.Errorf("%w: credential cache: %w", ErrConfig, err)
		}
		return cl, nil
	}
	if cfg.User == "" || realm == "" {
		return nil, fmt.Errorf("%w: user and realm are needed", ErrConfig)
	}
	if cfg.Keytab != "" {
		keys, err := keytab.Load(cfg.Keytab)
		if err != nil {
			return nil, fmt.Errorf("%w: keytab: %w", ErrConfig, err)
		}
		return client.NewWithKeytab(cfg.User, realm, keys, conf, settings), nil
	}
	if cfg.Password == "" {
		return nil, fmt.Errorf("%w: one of password, keytab and credential cache is needed", ErrConfig)
	}
	return client.NewWithPassword(cfg.User, realm, cfg.Password, conf, settings), nil
}

// loadCCache is credentials.LoadCCache, which panics when the file is truncated, as while another program writes it.
func loadCCache(path string) (c *credentials.CCache, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s: malformed: %v", path, r)
		}
	}()
	return credentials.LoadCCache(path)
}

func loadConfig(cfg Config) (*config.Config, error) {
	path := cfg.ConfigFile
	if path == "" {
		path = os.Getenv("KRB5_CONFIG")
	}
	asked := path != ""
	if !asked {
		path = "/etc/krb5.conf"
	}
	conf, err := config.Load(path)
	var unsupported config.UnsupportedDirective
	switch {
	case err == nil, errors.As(err, &unsupported) && conf != nil:
		return conf, nil
	case !asked && errors.Is(err, os.ErrNotExist):
		conf = config.New()
		conf.LibDefaults.DefaultRealm = cfg.Realm
		conf.LibDefaults.DNSLookupKDC = true
		return conf, nil
	}
	return nil, fmt.Errorf("%w: %s: %w", ErrConfig, path, err)
}

// Start gets the ticket for the server, or uses a stored one. The error matches [ErrTicket] or
// [net.ErrClosed], or is the context's.
func (i *Initiator) Start(ctx context.Context, host string) (smb.SecurityContext, error) {
	spn := i.spn
	if spn == "" {
		spn = "cifs/" + host
	}
	if !i.enter() {
		return nil, fmt.Errorf("krb5: initiator: %w", net.ErrClosed)
	}
	type result struct {
		context *securityContext
		err     error
	}
	done := make(chan result, 1)
	go func() { // gokrb5 takes no contexts
		defer i.leave()
		c, err := i.start(spn)
		done <- result{c, err}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			return nil, r.err
		}
		return r.context, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// enter counts a new request to a KDC, unless the initiator is closed.
func (i *Initiator) enter() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return false
	}
	i.kdcRequests++
	return true
}

// leave counts its end.
func (i *Initiator) leave() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.kdcRequests--; i.closed && i.kdcRequests == 0 {
		i.destroy()
	}
}

func (i *Initiator) start(spn string) (_ *securityContext, err error) {
	i.kdcLock.Lock()
	defer i.kdcLock.Unlock()
	defer refused(&err)
	err = i.client.AffirmLogin()
	if err != nil && i.reload != nil {
		err = i.readAgain(err)
	}
	if err != nil {
		if credentialsRefused(err) {
			err = fmt.Errorf("%w: %w", fs.ErrPermission, err)
		}
		return nil, fmt.Errorf("%w: %w", ErrTicket, skewed(err))
	}
	ticket, key, err := i.client.GetServiceTicket(spn)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrTicket, spn, skewed(err))
	}
	return &securityContext{
		ticket: ticket,
		key:    key,
		realm:  i.client.Credentials.Domain(),
		name:   i.client.Credentials.CName(),
	}, nil
}

// readAgain replaces the client, whose tickets have expired with the error expired, by one with those that are in the credential
// cache now. It returns expired when these are another user's, or cannot be read.
func (i *Initiator) readAgain(expired error) error {
	cl, err := i.reload()
	if err != nil {
		return expired
	}
	was, is := i.client.Credentials, cl.Credentials
	if is.Domain() != was.Domain() || !is.CName().Equal(was.CName()) {
		cl.Destroy()
		return expired
	}
	i.client.Destroy()
	i.client = cl
	return cl.AffirmLogin()
}

// credentialsRefused reports whether the KDC has counted err, of logging in, as a failed login of the user, who may be locked out
// after some of them (RFC 4120 7.5.9). gokrb5 keeps only the text of the KDC's error.
func credentialsRefused(err error) bool {
	for _, code := range []string{"KDC_ERR_PREAUTH_FAILED", "KDC_ERR_CLIENT_REVOKED", "KDC_ERR_KEY_EXPIRED"} {
		if strings.Contains(err.Error(), code) {
			return true
		}
	}
	return false
}

// skewed adds ErrClockSkew to err if that is the reason. A ticket is "not yet valid" for a server whose clock is behind, since none is
// requested for a later time. gokrb5 keeps only the text of the KDC's error, and writes of a wrong password in some of these cases.
func skewed(err error) error {
	for _, text := range []string{"KRB_AP_ERR_SKEW", "KRB_AP_ERR_TKT_NYV", "clock skew with KDC too large"} {
		if strings.Contains(err.Error(), text) {
			return fmt.Errorf("%w: %w", ErrClockSkew, err)
		}
	}
	return err
}

// Close drops tickets and keys and ends their renewal. Running authentications continue; Start fails from now
// on with an error matching [net.ErrClosed]. A second Close has no effect.
func (i *Initiator) Close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return
	}
	i.closed = true
	if i.kdcRequests == 0 {
		i.destroy()
	}
}

func (i *Initiator) destroy() {
	if !i.borrowed {
		i.client.Destroy()
	}
}
