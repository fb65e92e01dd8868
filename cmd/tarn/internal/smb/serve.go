package smb

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"path"
	"strings"
	"time"

	"golang.org/x/net/webdav"

	smbdav "github.com/tarn-go/tarn/smb/webdav"
)

// serving are the flags of serve.
type serving struct {
	webdav    bool
	listen    string
	loginFile string
	certFile  string
	keyFile   string
	readOnly  bool
}

func serveFlags(set *flag.FlagSet, o *options) {
	s := &o.serving
	set.BoolVar(&s.webdav, "webdav", false, "by WebDAV; required, as there is nothing else yet")
	set.StringVar(&s.listen, "listen", "127.0.0.1:8080", "`ADDRESS` to listen on; others than loopback need a certificate")
	set.StringVar(&s.loginFile, "login-file", "", "the login that clients need, USER:PASSWORD on the first line of `FILE`; without it one is made up and shown")
	set.StringVar(&s.certFile, "tls-cert", "", "certificate for HTTPS, in PEM")
	set.StringVar(&s.keyFile, "tls-key", "", "its private key, in PEM")
	set.BoolVar(&s.readOnly, "read-only", false, "refuse everything that changes something")
}

// runServe serves a directory of a share to HTTP clients, until it is interrupted.
func runServe(ctx context.Context, a *app, args []string) error {
	o := &a.opts.serving
	if !o.webdav {
		return usageError("serve needs -webdav")
	}
	if (o.certFile == "") != (o.keyFile == "") {
		return usageError("-tls-cert and -tls-key belong together")
	}
	p, err := a.at(ctx, args[0])
	if err != nil {
		return err
	}
	if info, err := p.share.Stat(p.path); err != nil {
		return err
	} else if !info.IsDir() {
		return usageError("%s is not a directory", p)
	}
	login, madeUp, err := readLogin(o.loginFile)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", o.listen)
	if err != nil {
		return usageError("-listen: %v", err)
	}
	defer l.Close()
	if tcp, ok := l.Addr().(*net.TCPAddr); o.certFile == "" && (!ok || !tcp.IP.IsLoopback()) {
		return usageError("-listen %s: other machines could read the login and the files; -tls-cert and -tls-key protect them", o.listen)
	}
	return a.serve(ctx, l, p, login, madeUp)
}

func (a *app) serve(ctx context.Context, l net.Listener, p spot, login *login, madeUp string) error {
	o := &a.opts.serving
	server := &http.Server{
		Handler:           withoutScripts(login.require(o.handler(p))),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	scheme := "http"
	ended := make(chan error, 1)
	if o.certFile != "" {
		scheme = "https"
		go func() { ended <- server.ServeTLS(l, o.certFile, o.keyFile) }()
	} else {
		go func() { ended <- server.Serve(l) }()
	}
	fmt.Fprintf(a.std.Err, "%s is at %s://%s/%s\n", p, scheme, l.Addr(), madeUp)
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	// The context of requests has ended, so they end soon.
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(closing); err != nil {
		server.Close()
	}
	<-ended
	return nil
}

// handler serves the directory.
func (o *serving) handler(p spot) http.Handler {
	dir := &below{smbdav.New(p.share), p.path}
	h := dir.browse(smbdav.Handler(&webdav.Handler{FileSystem: dir, LockSystem: webdav.NewMemLS()}))
	if !o.readOnly {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodGet, http.MethodHead, http.MethodOptions, "PROPFIND":
			h.ServeHTTP(w, r)
		default:
			http.Error(w, "read-only", http.StatusForbidden)
		}
	})
}

// withoutScripts keeps scripts in pages and images of the share from running: they would have the browser's login for everything
// that is served. Not sandbox, which keeps browsers from downloading files, too.
func withoutScripts(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "script-src 'none'")
		// Nor may pages of other origins, which a browser fetches with the login, use a file as their script or image.
		w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

// below is a file system's subtree. Names are cleaned before they are joined to
// the directory's name, so that none leads out of it. A symbolic link or a DFS link is followed and may.
type below struct {
	webdav.FileSystem
	dir string
}

// at returns the name in the whole file system. SMB separates names by backslashes, HTTP does not:
// a name with a backslash is reported as one that does not exist.
func (b *below) at(op, name string) (string, error) {
	if strings.ContainsAny(name, "\\\x00") {
		return "", &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return path.Join(b.dir, path.Clean("/"+name)), nil
}

func (b *below) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	full, err := b.at("mkdir", name)
	if err != nil {
		return err
	}
	return b.FileSystem.Mkdir(ctx, full, perm)
}

func (b *below) OpenFile(ctx context.Context, name string, flag int, perm fs.FileMode) (webdav.File, error) {
	full, err := b.at("open", name)
	if err != nil {
		return nil, err
	}
	return b.FileSystem.OpenFile(ctx, full, flag, perm)
}

func (b *below) RemoveAll(ctx context.Context, name string) error {
	full, err := b.at("remove", name)
	if err == nil && path.Clean("/"+name) == "/" {
		err = fs.ErrInvalid // the directory that is served
	}
	if err != nil {
		return err
	}
	return b.FileSystem.RemoveAll(ctx, full)
}

func (b *below) Rename(ctx context.Context, oldName, newName string) error {
	from, err := b.at("rename", oldName)
	if err != nil {
		return err
	}
	to, err := b.at("rename", newName)
	if err == nil && (path.Clean("/"+oldName) == "/" || path.Clean("/"+newName) == "/") {
		err = fs.ErrInvalid
	}
	if err != nil {
		return err
	}
	return b.FileSystem.Rename(ctx, from, to)
}

func (b *below) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	full, err := b.at("stat", name)
	if err != nil {
		return nil, err
	}
	return b.FileSystem.Stat(ctx, full)
}

// login is who may use the server. Digests are compared, so that the time taken does not depend on the lengths.
type login struct{ user, password [sha256.Size]byte }

func newLogin(user, password string) *login {
	return &login{sha256.Sum256([]byte(user)), sha256.Sum256([]byte(password))}
}

// readLogin reads a login from a file; without a file it generates one and returns a text that shows
// it to the user.
func readLogin(file string) (l *login, madeUp string, err error) {
	if file == "" {
		password := rand.Text()
		return newLogin("tarn", password), fmt.Sprintf(" for user tarn with password %s", password), nil
	}
	line, err := secretLine(file)
	if err != nil {
		return nil, "", fmt.Errorf("login: %w", err)
	}
	user, password, ok := strings.Cut(line, ":")
	if !ok || user == "" || password == "" {
		return nil, "", usageError("%s has no login, USER:PASSWORD", file)
	}
	return newLogin(user, password), "", nil
}

// require asks for the login (RFC 7617).
func (l *login) require(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, ok := r.BasicAuth()
		u, p := sha256.Sum256([]byte(user)), sha256.Sum256([]byte(password))
		if !ok || subtle.ConstantTimeCompare(u[:], l.user[:])&subtle.ConstantTimeCompare(p[:], l.password[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="tarn smb", charset="UTF-8"`)
			http.Error(w, "login needed", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
