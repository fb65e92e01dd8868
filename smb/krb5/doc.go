// Package krb5 logs on to SMB servers with Kerberos: an [Initiator] for package smb, over
// github.com/jcmturner/gokrb5. It is a separate module, so that other programs do not require that library.
//
//	i, err := krb5.New(krb5.Config{User: "alice", Realm: "EXAMPLE.ORG", Password: password})
//	if err != nil { ... }
//	defer i.Close()
//	s, err := (&smb.Dialer{Initiator: i}).Dial(ctx, "files.example.org")
//
// Credentials come from a password, a keytab or a credential cache that kinit has filled. Mutual
// authentication is always requested: the login fails when the server cannot decrypt its ticket.
//
// # Limitations
//
// Encryption types are those of gokrb5: AES with SHA-1 or SHA-2, and RC4 for old domains, with which the
// signature of SPNEGO's list of mechanisms is neither made nor verified. Credential caches are files of
// version 4; caches in the kernel or in a daemon are not read. Delegation is not supported. A request to a
// KDC cannot be interrupted: cancelling the context returns at once, but the request continues until its own
// time limit.
//
// Tested: tickets by password, keytab and cache from a KDC of MIT Kerberos and from a domain controller of
// Samba's Active Directory; sessions with a standalone Samba server and with that domain controller, plain,
// signed and encrypted. Not tested: domain controllers of Windows, referrals between realms, and the second
// round of SPNEGO that only a server with several mechanisms requires.
package krb5
