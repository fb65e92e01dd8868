package rclone

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rclone/rclone/backend/overview"
	"github.com/rclone/rclone/fs"
	"github.com/rclone/rclone/fs/config"
	"github.com/rclone/rclone/fs/config/obscure"
	"github.com/rclone/rclone/lib/encoder"
	"github.com/rclone/rclone/lib/env"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/krb5"
)

// Type is the backend's name in rclone.conf.
const Type = "tarnsmb"

// Register adds the backend to rclone's, under the name Type. A program calls it before it makes remotes, once.
func Register() { fs.Register(info()) }

// options are those of a remote. The names, defaults and meanings of the first group are those of rclone's backend smb, so that a
// remote changes its backend by one word.
type options struct {
	Host            string               `config:"host"`
	Port            string               `config:"port"`
	User            string               `config:"user"`
	Pass            string               `config:"pass"`
	Domain          string               `config:"domain"`
	SPN             string               `config:"spn"`
	Workstation     string               `config:"workstation"`
	UseKerberos     bool                 `config:"use_kerberos"`
	KerberosCCache  string               `config:"kerberos_ccache"`
	HideSpecial     bool                 `config:"hide_special_share"`
	CaseInsensitive bool                 `config:"case_insensitive"`
	IdleTimeout     fs.Duration          `config:"idle_timeout"`
	Enc             encoder.MultiEncoder `config:"encoding"`

	AllowUnsigned bool `config:"allow_unsigned"`
	Encrypt       bool `config:"encrypt"`
	AllowGuest    bool `config:"allow_guest"`
	Connections   int  `config:"connections"`
	CopyLinks     bool `config:"copy_links"`
	Links         bool `config:"links"`
	POSIX         bool `config:"posix"`
}

func info() *fs.RegInfo {
	return &fs.RegInfo{
		Name:        Type,
		Description: "SMB / CIFS (Tarn)",
		NewFs:       newFs,
		Overview: &overview.BackendConfig{Backend: Type, Name: "SMB / CIFS (Tarn)", Maintainers: "External", DataIntegrity: "Modtime", Remote: "TestTarnSMB:rclone",
			Precision: 100},
		MetadataInfo: &fs.MetadataInfo{System: map[string]fs.MetadataHelp{
			"mtime":      {Help: "Time of the last modification.", Type: "RFC 3339", Example: "2006-01-02T15:04:05.9999999Z"},
			"atime":      {Help: "Time of the last access.", Type: "RFC 3339", Example: "2006-01-02T15:04:05.9999999Z"},
			"btime":      {Help: "Time of creation.", Type: "RFC 3339", Example: "2006-01-02T15:04:05.9999999Z"},
			"attributes": {Help: "File attributes (MS-FSCC 2.6). Read-only, hidden, system, archive, temporary, offline and not indexed are set.", Type: "hexadecimal", Example: "20"},
			"mode":       {Help: "File type and permissions, with the option posix. Permissions alone are set.", Type: "octal, unix style", Example: "0100664"},
			"uid":        {Help: "Id of the owner, with the option posix, if the server reports it.", Type: "decimal number", Example: "500"},
			"gid":        {Help: "Id of the group, with the option posix, if the server reports it.", Type: "decimal number", Example: "500"},
		}},
		Options: []fs.Option{
			{Name: "host", Help: "Name or address of the server.", Required: true, Sensitive: true},
			{Name: "user", Help: "User; the name of the current user if blank.", Sensitive: true},
			{Name: "port", Help: "Port of the server.", Default: 445},
			{Name: "pass", Help: "Password.", IsPassword: true},
			{Name: "domain", Help: "Domain of the user for NTLM.", Default: "WORKGROUP", Sensitive: true},
			{Name: "spn", Help: "Service principal name; cifs/ and the host if blank.", Sensitive: true},
			{Name: "workstation", Help: "Name of this client for NTLM; none if blank.", Advanced: true, Sensitive: true},
			{Name: "use_kerberos", Help: "Log in with Kerberos rather than NTLM, with the tickets of kinit.", Default: false},
			{Name: "kerberos_ccache", Help: "Kerberos credential cache: a path, FILE:path or DIR:path; $KRB5CCNAME if blank.", Advanced: true},
			{Name: "idle_timeout", Help: "How long connections stay open without use; 0 keeps them.", Default: fs.Duration(time.Minute), Advanced: true},
			{Name: "hide_special_share", Help: "Leave out shares for administration, such as print$.", Default: true, Advanced: true},
			{Name: "case_insensitive", Help: "The server does not tell upper case from lower in names.", Default: true, Advanced: true},
			{Name: "allow_unsigned", Help: "Leave messages unsigned unless the server requires signatures.\n\nFaster on a network that nobody else can write to.", Default: false, Advanced: true},
			{Name: "encrypt", Help: "Encrypt every message, and refuse a server that cannot.", Default: false, Advanced: true},
			{Name: "allow_guest", Help: "Accept that the server takes the user for a guest, whose messages are neither signed nor encrypted.", Default: false, Advanced: true},
			{Name: "connections", Help: "Connections to the server at most.\n\nOne has many requests in flight; more use more processors of a server that serves a connection by one thread.", Default: 4, Advanced: true},
			{Name: "copy_links", Help: "Follow symbolic links and copy what they lead to, rather than leave them out.", Default: false, Advanced: true},
			{Name: "links", Help: "Show symbolic links as files with the extension " + linkSuffix + " that contain their targets, and make links of such files.", Default: false, Advanced: true},
			{Name: "posix", Help: "Use SMB3's POSIX extensions where the server has them.\n\nNames are case-sensitive on shares that have them, new files follow the umask, and metadata has modes and owners.", Default: false, Advanced: true},
			{Name: config.ConfigEncoding, Help: config.ConfigEncodingHelp, Advanced: true,
				Default: encoder.EncodeZero | encoder.EncodeSlash | encoder.EncodeBackSlash | encoder.EncodeWin | encoder.EncodeCtl |
					encoder.EncodeDot | encoder.EncodeRightSpace | encoder.EncodeRightPeriod | encoder.EncodeInvalidUtf8},
		},
	}
}

// dialer makes the dialer of a remote with these options, and the address that it dials.
func (o *options) dialer() (*smb.Dialer, string, error) {
	if o.Host == "" {
		return nil, "", errors.New(Type + ": the remote has no host")
	}
	initiator, err := o.initiator()
	if err != nil {
		return nil, "", err
	}
	d := &smb.Dialer{
		Initiator: initiator, Host: o.Host, AllowUnsigned: o.AllowUnsigned && !o.Encrypt, RequireEncryption: o.Encrypt, AllowGuest: o.AllowGuest,
		POSIX: o.POSIX,
	}
	return d, net.JoinHostPort(o.Host, o.Port), nil
}

// passHint is added to errors for which a pass that is not obscured may be the cause.
const passHint = `pass in rclone.conf has to be the output of "rclone obscure PASSWORD"`

func (o *options) initiator() (smb.Initiator, error) {
	user := o.User
	if user == "" {
		user = env.CurrentUser()
	}
	if o.UseKerberos {
		cache, err := credentialCache(o.KerberosCCache)
		if err != nil {
			return nil, err
		}
		return krb5.New(krb5.Config{CCache: cache, SPN: o.SPN})
	}
	password := ""
	if o.Pass != "" {
		var err error
		if password, err = obscure.Reveal(o.Pass); err != nil {
			return nil, fmt.Errorf("%s: %w; %s", Type, err, passHint)
		}
		if !utf8.ValidString(password) {
			return nil, fmt.Errorf("%s: the password is not valid; %s", Type, passHint)
		}
	}
	return smb.NTLM{User: user, Password: password, Domain: o.Domain, Workstation: o.Workstation, Target: strings.TrimSpace(o.SPN)}, nil
}
