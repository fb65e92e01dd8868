// Package testcert makes certificates for tests of TLS.
package testcert

import (
	"crypto/tls"
	"crypto/x509"
	"testing"

	"github.com/tarn-go/tarn/internal/selfsigned"
)

// Name is the host name of the certificates, besides 127.0.0.1.
const Name = "tarn.test"

// New returns a self-signed certificate that is good for an hour, and the pool of roots that it is
// verified by.
func New(t testing.TB) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	cert, err := selfsigned.New(Name)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert.Leaf)
	return cert, roots
}

// Files returns the paths of PEM files with a new certificate and its key, which are removed when the test ends, and
// the pool of roots that the certificate is verified by.
func Files(t testing.TB) (certFile, keyFile string, roots *x509.CertPool) {
	t.Helper()
	cert, roots := New(t)
	certFile, keyFile, err := selfsigned.WriteFiles(t.TempDir(), cert)
	if err != nil {
		t.Fatal(err)
	}
	return certFile, keyFile, roots
}
