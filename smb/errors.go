package smb

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/tarn-go/tarn/smb/internal/conn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

var (
	// ErrConnLost is matched when the connection broke or could not be made, or the server has closed the share. An operation that
	// was under way may or may not have taken effect.
	ErrConnLost = conn.ErrLost
	// ErrHandleLost is matched by operations on a file that was open when its connection
	// broke and that the server did not keep (no durable handle), or that the server has closed: open it again.
	ErrHandleLost = errors.New("smb: the open file did not survive the loss of its connection")
	// ErrShareLost is matched by operations on a mounted share when the server refuses to connect it again, after the connection was
	// lost or the server has closed the share. The next operation tries again.
	ErrShareLost = errors.New("smb: the share cannot be connected again")
	// ErrLogin is matched when the user's login was refused: by the server, with a status that matches fs.ErrPermission, such as
	// STATUS_LOGON_FAILURE or STATUS_PASSWORD_EXPIRED, or by the Initiator, with an error that does. The error matches that, too.
	// So that calls after a lost connection cannot lock the account, a Session does not log in again for 15 minutes; until then
	// they fail with the same error. A program that has other credentials dials another Session.
	ErrLogin = errors.New("smb: login refused")
	// ErrClosed is matched by operations on a closed file, share or session. It matches fs.ErrClosed too.
	ErrClosed error = &classError{"smb: already closed", fs.ErrClosed}
	// ErrProtocol is matched when the server broke the protocol. The connection is closed.
	ErrProtocol = conn.ErrProtocol
	// ErrSecurity is matched when a reply was unsigned, unencrypted or wrongly signed although the session
	// forbids it, when the server accepted a user without having proved that it knows the password, or when it lacks the
	// security that the Dialer requires. The cause is the server, or an attacker on the path. The connection is closed.
	ErrSecurity = conn.ErrSecurity
	// ErrGuest is matched when the server accepted a user with credentials as a guest, or as the anonymous user,
	// and Dialer.AllowGuest would have allowed that. Such an error matches ErrSecurity too.
	ErrGuest = conn.ErrGuest
	// ErrName is matched when a name is not valid. It matches fs.ErrInvalid too.
	ErrName error = &classError{"smb: invalid name", fs.ErrInvalid}
	// ErrLocked is matched when the range is locked by another handle.
	ErrLocked = errors.New("smb: range is locked by another handle")
	// ErrSameFile is matched when the source and the target of a copy are the same file.
	ErrSameFile = errors.New("smb: source and target are the same file")
	// ErrChanged is matched when a file was written to while it was read by a call that reads all of it, or is shorter than what
	// the server was to copy of it.
	ErrChanged = errors.New("smb: the file changed while it was read")
	// ErrReferral is matched when a DFS referral leads to a host that Dialer.AllowReferral refuses.
	ErrReferral = errors.New("smb: the DFS referral leads to a host that is not allowed")
	// ErrLeavesTree is matched when RemoveAll does not remove an entry because it leads out of the directory that has it: it is a
	// link, to another server or elsewhere on this one. What it leads to is not touched.
	ErrLeavesTree = errors.New("smb: it leads out of the tree")
	// ErrLoop is matched when a directory contains itself, by the ids of files that the server reports.
	ErrLoop = errors.New("smb: the directory contains itself")
	// ErrTooMany is matched when a directory has more entries than Limits.MaxEntries, or is
	// nested deeper than any server's paths allow (the peer's fault).
	ErrTooMany = errors.New("smb: more directory entries than the limit")
	// ErrUnsupported is matched when the server or the negotiated dialect does not support the operation. It
	// matches errors.ErrUnsupported too.
	ErrUnsupported error = &classError{"smb: not supported by the server", errors.ErrUnsupported}
)

var (
	errIsDirectory  error = &classError{"is a directory", syscall.EISDIR}
	errNotDirectory error = &classError{"not a directory", syscall.ENOTDIR}
	errLinks        error = &classError{"too many levels of links", syscall.ELOOP}
)

// classError is a sentinel error that also matches a more general one.
type classError struct {
	text  string
	class error
}

func (e *classError) Error() string { return e.text }
func (e *classError) Unwrap() error { return e.class }

// Status is an NTSTATUS (MS-ERREF 2.3.1). It is comparable, and as an error prints its name.
type Status uint32

// Error is the name of s, such as "STATUS_ACCESS_DENIED".
func (s Status) Error() string { return proto.Status(s).String() }

// Is makes s match fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, os.ErrDeadlineExceeded, syscall.ENOSPC,
// syscall.EDQUOT, syscall.EFBIG, syscall.EISDIR, syscall.ENOTDIR, syscall.ENOTEMPTY, ErrName, ErrLocked and ErrUnsupported where the status has that
// meaning.
func (s Status) Is(target error) bool {
	switch target {
	case fs.ErrNotExist:
		switch proto.Status(s) {
		case proto.StatusNoSuchFile, proto.StatusObjectNameNotFound, proto.StatusObjectPathNotFound,
			proto.StatusNotFound, proto.StatusBadNetworkName, proto.StatusBadNetworkPath, proto.StatusNoSuchDevice,
			proto.StatusDeletePending, proto.StatusFileDeleted:
			return true
		}
	case fs.ErrExist:
		switch proto.Status(s) {
		case proto.StatusObjectNameCollision, proto.StatusDirectoryNotEmpty:
			return true
		}
	case fs.ErrPermission:
		switch proto.Status(s) {
		case proto.StatusAccessDenied, proto.StatusNetworkAccessDenied, proto.StatusCannotDelete,
			proto.StatusMediaWriteProtected, proto.StatusLogonFailure, proto.StatusWrongPassword,
			proto.StatusAccountDisabled, proto.StatusAccountRestriction, proto.StatusAccountLockedOut,
			proto.StatusAccountExpired, proto.StatusPasswordExpired, proto.StatusPasswordMustChange,
			proto.StatusInvalidLogonHours, proto.StatusInvalidWorkstation, proto.StatusLogonTypeNotGranted:
			return true
		}
	case syscall.ENOSPC:
		return proto.Status(s) == proto.StatusDiskFull
	case syscall.EDQUOT:
		return proto.Status(s) == proto.StatusQuotaExceeded || proto.Status(s) == proto.StatusDiskQuotaExceeded
	case syscall.EFBIG: // Samba's for a stream that no extended attribute can hold, and that of Windows; of a file Samba says DISK_FULL
		return proto.Status(s) == proto.StatusFileSystemLimitation || proto.Status(s) == proto.StatusFileTooLarge
	case syscall.EISDIR:
		return proto.Status(s) == proto.StatusFileIsADirectory
	case syscall.ENOTDIR:
		return proto.Status(s) == proto.StatusNotADirectory
	case syscall.ENOTEMPTY:
		return proto.Status(s) == proto.StatusDirectoryNotEmpty
	case ErrName, fs.ErrInvalid:
		return proto.Status(s) == proto.StatusObjectNameInvalid
	case os.ErrDeadlineExceeded:
		return proto.Status(s) == proto.StatusIOTimeout
	case ErrLocked:
		return proto.Status(s) == proto.StatusLockNotGranted || proto.Status(s) == proto.StatusFileLockConflict
	case ErrUnsupported, errors.ErrUnsupported:
		switch proto.Status(s) {
		case proto.StatusNotSupported, proto.StatusNotImplemented, proto.StatusInvalidDeviceRequest, proto.StatusInvalidInfoClass:
			return true
		}
	}
	return false
}

// ResponseError is returned when the server refuses a request.
type ResponseError struct {
	Command string // name in MS-SMB2, such as "CREATE"
	Status  Status

	link       *stoppedLink // the target, when the server stopped at a symbolic link
	copyLimits *copyLimits  // the server's, when it refused a COPYCHUNK that exceeds them
}

// Error names the command, the status and its meaning.
func (e *ResponseError) Error() string {
	return "smb: server answered " + e.Command + " with " + e.Status.Error()
}

// Unwrap returns the Status.
func (e *ResponseError) Unwrap() error { return e.Status }

// dialError is the error of a connection that could not be made, or on which the share could not be connected. It matches ErrConnLost.
type dialError struct{ cause error }

func (e *dialError) Error() string   { return "smb: cannot connect: " + e.cause.Error() }
func (e *dialError) Unwrap() []error { return []error{ErrConnLost, e.cause} }

// lostError is the error of operations on an open file or a mounted share that the server does not give back after a loss. The
// cause is a refusal that concerns the handle or the share, not the file that the operation names: the error matches what the cause
// matches, except fs.ErrNotExist, from which programs conclude that the file does not exist.
type lostError struct{ class, cause error }

func (e *lostError) Error() string { return e.class.Error() + ": " + e.cause.Error() }
func (e *lostError) Unwrap() error { return e.class }
func (e *lostError) Is(target error) bool {
	return target != fs.ErrNotExist && errors.Is(e.cause, target)
}
func (e *lostError) As(target any) bool { return errors.As(e.cause, target) }

// refused is the error of a refused request.
func refused(r conn.Refusal) error {
	return &ResponseError{Command: r.Command.String(), Status: Status(r.Status), link: stoppedLinkOf(&r), copyLimits: copyLimitsOf(&r)}
}

// statusOf is the NTSTATUS in err, or success when there is none.
func statusOf(err error) proto.Status {
	var s Status
	if errors.As(err, &s) {
		return proto.Status(s)
	}
	return proto.StatusSuccess
}

func hasStatus(err error, want proto.Status) bool {
	return err != nil && statusOf(err) == want
}
