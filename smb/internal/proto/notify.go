package proto

// NotifyFilter is the set of changes to report (2.2.35).
type NotifyFilter uint32

// Notify filters (2.2.35).
const (
	NotifyFileName   NotifyFilter = 0x001
	NotifyDirName    NotifyFilter = 0x002
	NotifyAttributes NotifyFilter = 0x004
	NotifySize       NotifyFilter = 0x008
	NotifyLastWrite  NotifyFilter = 0x010
	NotifyLastAccess NotifyFilter = 0x020
	NotifyCreation   NotifyFilter = 0x040
	NotifyEA         NotifyFilter = 0x080
	NotifySecurity   NotifyFilter = 0x100
)

// NotifyTree asks for changes in directories below as well (2.2.35).
const NotifyTree uint16 = 1

// ChangeNotifyRequest requests the next changes in a directory (2.2.35). The answer may never come; a CANCEL
// ends the wait.
type ChangeNotifyRequest struct {
	Flags  uint16
	Output uint32 // bytes the answer may have
	FileID FileID
	Filter NotifyFilter
}

// Size is the number of bytes Append adds.
func (r *ChangeNotifyRequest) Size() int { return 32 }

// Append appends the request's body behind its header.
func (r *ChangeNotifyRequest) Append(dst []byte) []byte {
	dst = le.AppendUint16(dst, 32)
	dst = le.AppendUint16(dst, r.Flags)
	dst = le.AppendUint32(dst, r.Output)
	dst = r.FileID.append(dst)
	dst = le.AppendUint32(dst, uint32(r.Filter))
	return le.AppendUint32(dst, 0)
}

// NotifyAction is what happened (MS-FSCC 2.7.1).
type NotifyAction uint32

// Notify actions (MS-FSCC 2.7.1).
const (
	NotifyAdded      NotifyAction = 1
	NotifyRemoved    NotifyAction = 2
	NotifyModified   NotifyAction = 3
	NotifyRenamedOld NotifyAction = 4
	NotifyRenamedNew NotifyAction = 5
)

// NotifyEvent is one change (MS-FSCC 2.7.1).
type NotifyEvent struct {
	Action NotifyAction
	Name   []byte // UTF-16LE, relative to the directory; aliases the message
}

// NotifyEvents iterates over the changes of one response. It is a value: copying it copies the position. A
// response without events means that there were too many changes.
type NotifyEvents struct {
	rest []byte
	cur  NotifyEvent
	err  error
}

// DecodeChangeNotifyResponse reads a CHANGE_NOTIFY response (2.2.36). The iterator aliases it.
func DecodeChangeNotifyResponse(msg []byte) (NotifyEvents, error) {
	b, err := decodeOutput(msg, "CHANGE_NOTIFY response")
	return NotifyEvents{rest: b}, err
}

// Next moves to the next change and reports whether there is one; when it returns false, Err says whether an
// error ended the iteration.
func (e *NotifyEvents) Next() bool {
	if e.err != nil || len(e.rest) == 0 {
		return false
	}
	const name = "change notification"
	var b []byte
	if b, e.rest, e.err = chained(e.rest, name, 12); e.err != nil {
		return false
	}
	n, ok := slice(b, 12, le.Uint32(b[8:]))
	if !ok {
		e.err = malformed(name, reasonBounds)
		return false
	}
	e.cur = NotifyEvent{NotifyAction(le.Uint32(b[4:])), n}
	return true
}

// Event is the change that Next moved to. Its name is valid until the message's buffer is freed (rule 3).
func (e *NotifyEvents) Event() NotifyEvent { return e.cur }

// Err is the error that ended the iteration, nil after a complete one.
func (e *NotifyEvents) Err() error { return e.err }
