package smb_test

import (
	"bytes"
	"maps"
	"strings"
	"sync"

	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// memoryDisk gives a scripted server a small file system that outlives its connections, with durable handles. It
// supports what the client's methods need, and no more: one user, names in one case, deletion at once.
type memoryDisk struct {
	mu      sync.Mutex
	last    *script.Conn // of the session; a new one ends that before (MS-SMB2 3.3.5.5.3)
	nodes   map[string]*memoryNode
	handles map[uint64]*memoryHandle
	made    uint64        // nodes and handles made so far
	created *memoryHandle // by the last CREATE, which related requests mean; nil: it failed
	failed  proto.Status  // of the last CREATE
	// undurable disks grant no durable handles: all are closed when their session ends.
	undurable bool
	until     int // requests before meanwhile is called
	meanwhile func()
}

// before has f called before request n, from 1 on.
func (m *memoryDisk) before(n int, f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.until, m.meanwhile = n, f
}

// openHandles is how many files are open.
func (m *memoryDisk) openHandles() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.handles)
}

type memoryNode struct {
	id   uint64
	dir  bool
	data []byte
	// sparse is set by FSCTL_SET_SPARSE.
	sparse bool
	// changes counts those of data: the time of the last one.
	changes uint64
	// attributes are those that SET_INFO has set, without those of a directory or a sparse file.
	attributes proto.Attributes
	created    proto.Filetime // 0: the id
	written    proto.Filetime // that SET_INFO has set
	// pinned files cannot be removed.
	pinned bool
}

// all are the attributes that the server reports.
func (n *memoryNode) all() proto.Attributes {
	a := n.attributes
	if n.dir {
		a |= proto.AttrDirectory
	}
	if n.sparse {
		a |= proto.AttrSparse
	}
	return a
}

// change changes the named file.
func (m *memoryDisk) change(name string, f func(n *memoryNode)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(m.nodes[name])
}

// replace has another client move the named file away, and give its name to a new one.
func (m *memoryDisk) replace(name string, data []byte) *memoryNode {
	m.mu.Lock()
	defer m.mu.Unlock()
	if old := m.nodes[name]; old != nil {
		m.nodes["moved away"] = old
		for _, h := range m.handles {
			if h.node == old {
				h.name = "moved away"
			}
		}
	}
	n := m.add(name)
	n.data = append([]byte(nil), data...)
	return n
}

type memoryHandle struct {
	node   *memoryNode
	name   string
	listed bool // a listing has returned everything
}

// reset gives the disk the files with these contents, and the directory dir with three entries.
func (m *memoryDisk) reset(files map[string][]byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.nodes, m.handles = map[string]*memoryNode{}, map[uint64]*memoryHandle{}
	for _, name := range []string{"", "dir"} {
		m.add(name).dir = true
	}
	for _, name := range []string{`dir\a`, `dir\b`, `dir\c`} {
		m.add(name)
	}
	for name, data := range files {
		m.add(name).data = append([]byte(nil), data...)
	}
}

func (m *memoryDisk) add(name string) *memoryNode {
	m.made++
	n := &memoryNode{id: m.made}
	m.nodes[name] = n
	return n
}

// content is what the named file holds; ok is false when there is none.
func (m *memoryDisk) content(name string) (data []byte, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.nodes[name]
	if n == nil {
		return nil, false
	}
	return append([]byte(nil), n.data...), true
}

// files is how many names there are, of files and of directories.
func (m *memoryDisk) files() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.nodes)
}

func (m *memoryDisk) hook(c *script.Conn, msg *script.Message) bool {
	m.mu.Lock()
	if m.until--; m.until == 0 {
		m.mu.Unlock()
		m.meanwhile()
		m.mu.Lock()
	}
	defer m.mu.Unlock()
	switch msg.Command {
	case proto.CommandNegotiate, proto.CommandEcho, proto.CommandCancel:
		return false
	case proto.CommandSessionSetup:
		if m.last != c && m.undurable {
			clear(m.handles)
		}
		m.last = c
		return false
	}
	if c != m.last {
		c.Close()
		return true
	}
	b := msg.Body
	switch msg.Command {
	case proto.CommandCreate:
		m.create(c, msg)
	case proto.CommandClose:
		h := m.opened(c, msg, 8)
		if h == nil {
			return true
		}
		maps.DeleteFunc(m.handles, func(_ uint64, x *memoryHandle) bool { return x == h })
		return false
	case proto.CommandRead:
		if h := m.opened(c, msg, 16); h != nil {
			m.read(c, msg, h)
		}
	case proto.CommandWrite:
		h := m.opened(c, msg, 16)
		if h == nil {
			return true
		}
		h.node.put(int(le.Uint64(b[8:])), b[48:][:le.Uint32(b[4:])])
		return false
	case proto.CommandQueryInfo:
		if h := m.opened(c, msg, 24); h != nil {
			m.queryInfo(c, msg, h)
		}
	case proto.CommandSetInfo:
		if h := m.opened(c, msg, 16); h != nil {
			m.setInfo(c, msg, h)
		}
	case proto.CommandIoctl:
		if le.Uint32(b[4:]) == proto.FsctlValidateNegotiate {
			return false
		}
		if h := m.opened(c, msg, 8); h != nil {
			m.ioctl(c, msg, h)
		}
	case proto.CommandQueryDirectory:
		if h := m.opened(c, msg, 8); h != nil {
			m.list(c, msg, h)
		}
	case proto.CommandLock, proto.CommandFlush:
		if m.opened(c, msg, 8) != nil {
			c.Reply(msg, 0, []byte{4, 0, 0, 0}, script.AsAsked)
		}
	case proto.CommandChangeNotify:
		name := proto.AppendUTF16(nil, "new")
		event := le.AppendUint32(le.AppendUint32(make([]byte, 4), 1), uint32(len(name)))
		c.Reply(msg, 0, output(9, append(event, name...)), script.AsAsked)
	default:
		return false
	}
	return true
}

// output is the body of a reply with one buffer (2.2.38, 2.2.36).
func output(size uint16, data []byte) []byte {
	b := le.AppendUint16(nil, size)
	b = le.AppendUint16(b, proto.HeaderSize+8)
	return append(le.AppendUint32(b, uint32(len(data))), data...)
}

// opened returns the handle whose FileId is at offset at of the request, or refuses the request.
func (m *memoryDisk) opened(c *script.Conn, msg *script.Message, at int) *memoryHandle {
	h := m.handles[le.Uint64(msg.Body[at+8:])]
	if le.Uint64(msg.Body[at:]) == ^uint64(0) { // related: the file of the CREATE in the same frame
		if h = m.created; h == nil {
			c.Refuse(msg, m.failed)
			return nil
		}
	}
	if h == nil {
		c.Refuse(msg, proto.StatusFileClosed)
	}
	return h
}

func (m *memoryDisk) create(c *script.Conn, msg *script.Message) {
	const directory, notDirectory = 1, 0x40
	name := strings.TrimSuffix(script.NameOf(msg), `\`)
	n, options := m.nodes[name], le.Uint32(msg.Body[40:])
	disposition, action := proto.Disposition(le.Uint32(msg.Body[36:])), proto.ActionOpened
	m.created, m.failed = nil, 0
	switch disposition {
	case proto.DispositionOpen, proto.DispositionOverwrite:
		if n == nil {
			m.failed = proto.StatusObjectNameNotFound
		}
	case proto.DispositionCreate:
		if n != nil {
			m.failed = proto.StatusObjectNameCollision
		}
	}
	if n != nil && n.dir && options&notDirectory != 0 {
		m.failed = proto.StatusFileIsADirectory
	}
	if m.failed != 0 {
		c.Refuse(msg, m.failed)
		return
	}
	if n == nil {
		n, action = m.add(name), proto.ActionCreated
		n.dir = options&directory != 0
	} else if disposition == proto.DispositionOverwrite || disposition == proto.DispositionOverwriteIf {
		n.data, action = nil, proto.ActionOverwritten
	}
	m.made++
	m.created = &memoryHandle{node: n, name: name}
	m.handles[m.made] = m.created
	oplock, grant := proto.OplockBatch, durableGrant()
	if m.undurable {
		oplock, grant = proto.OplockNone, nil
	}
	c.Opened(msg, grant, func(b []byte) {
		b[2] = byte(oplock)
		le.PutUint32(b[4:], uint32(action))
		le.PutUint64(b[8:], n.id) // the time of creation
		if n.created != 0 {
			le.PutUint64(b[8:], uint64(n.created))
		}
		le.PutUint64(b[48:], uint64(len(n.data)))
		le.PutUint32(b[56:], uint32(n.all()))
		le.PutUint64(b[64:], n.id)
		le.PutUint64(b[72:], m.made)
	})
}

func (n *memoryNode) put(off int, data []byte) {
	n.changes++
	if need := off + len(data); need > len(n.data) {
		n.data = append(n.data, make([]byte, need-len(n.data))...)
	}
	copy(n.data[off:], data)
}

// sparseBlock is the length of the shortest hole in bytes.
const sparseBlock = 4 << 10

// allocated lists the ranges of n that are data: of a sparse file the blocks that are not zero.
func (n *memoryNode) allocated() (list []byte) {
	if !n.sparse {
		return le.AppendUint64(make([]byte, 8), uint64(len(n.data)))
	}
	for at := 0; at < len(n.data); at += sparseBlock {
		if b := n.data[at:min(at+sparseBlock, len(n.data))]; !bytes.Equal(b, make([]byte, len(b))) {
			list = le.AppendUint64(le.AppendUint64(list, uint64(at)), uint64(len(b)))
		}
	}
	return list
}

func (n *memoryNode) truncate(size int) {
	n.put(size, nil)
	n.data = n.data[:size]
}

func (m *memoryDisk) read(c *script.Conn, msg *script.Message, h *memoryHandle) {
	off, n := int(le.Uint64(msg.Body[8:])), int(le.Uint32(msg.Body[4:]))
	if off >= len(h.node.data) {
		c.Refuse(msg, proto.StatusEndOfFile)
		return
	}
	data := h.node.data[off:min(off+n, len(h.node.data))]
	readReply(c, msg, len(data), func(reply []byte) { copy(reply[80:], data) })
}

func (m *memoryDisk) queryInfo(c *script.Conn, msg *script.Message, h *memoryHandle) {
	data := make([]byte, 56)
	switch proto.InfoType(msg.Body[2]) {
	case proto.InfoFilesystem:
		data = data[:32]
	case proto.InfoSecurity:
		data = []byte{1, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	default:
		switch proto.InfoClass(msg.Body[3]) {
		case proto.ClassInternal:
			data = le.AppendUint64(nil, h.node.id)
		case proto.ClassNetworkOpen:
			le.PutUint64(data[16:], 133_000_000_000_000_000+h.node.changes)
			le.PutUint64(data[40:], uint64(len(h.node.data)))
			le.PutUint64(data, uint64(h.node.created))
			le.PutUint32(data[48:], uint32(h.node.all()))
		case proto.ClassAll:
			path := proto.AppendUTF16(nil, `\dir\`+strings.ToUpper(h.name))
			data = append(le.AppendUint32(make([]byte, 96), uint32(len(path))), path...)
		case proto.ClassFullEA:
			data = (&proto.EA{Name: "key", Value: []byte("value")}).Append(nil)
		case proto.ClassStream:
			name := proto.AppendUTF16(nil, ":stream:$DATA")
			data = append(make([]byte, 24), name...)
			le.PutUint32(data[4:], uint32(len(name)))
		default:
			c.Refuse(msg, proto.StatusNotSupported)
			return
		}
	}
	c.Reply(msg, 0, output(9, data), script.AsAsked)
}

func (m *memoryDisk) setInfo(c *script.Conn, msg *script.Message, h *memoryHandle) {
	data := msg.Body[32:]
	if proto.InfoType(msg.Body[2]) == proto.InfoFile {
		switch proto.InfoClass(msg.Body[3]) {
		case proto.ClassEndOfFile:
			h.node.truncate(int(le.Uint64(data)))
		case proto.ClassBasic:
			const settable = proto.AttrReadOnly | proto.AttrHidden | proto.AttrSystem | proto.AttrArchive
			if a := proto.Attributes(le.Uint32(data[32:])); a != 0 {
				h.node.attributes = a & settable
			}
			if t := proto.Filetime(le.Uint64(data)); t != 0 {
				h.node.created = t
			}
			if t := proto.Filetime(le.Uint64(data[16:])); t != 0 {
				h.node.written = t
			}
		case proto.ClassDisposition:
			refusal := proto.StatusSuccess
			switch {
			case h.node.attributes&proto.AttrReadOnly != 0:
				refusal = proto.StatusCannotDelete
			case h.node.pinned:
				refusal = proto.StatusAccessDenied
			}
			if refusal != proto.StatusSuccess {
				c.Refuse(msg, refusal)
				return
			}
			delete(m.nodes, h.name)
		case proto.ClassRename, proto.ClassLink:
			to := proto.DecodeUTF16(data[20:][:le.Uint32(data[16:])])
			if m.nodes[to] != nil && data[0] == 0 {
				c.Refuse(msg, proto.StatusObjectNameCollision)
				return
			}
			m.nodes[to] = h.node
			if proto.InfoClass(msg.Body[3]) == proto.ClassRename {
				delete(m.nodes, h.name)
				h.name = to
			}
		}
	}
	c.Reply(msg, 0, []byte{2, 0}, script.AsAsked)
}

func (m *memoryDisk) ioctl(c *script.Conn, msg *script.Message, h *memoryHandle) {
	code := le.Uint32(msg.Body[4:])
	var in, data []byte
	if at := le.Uint32(msg.Body[24:]); at > 0 {
		in = msg.Body[at-proto.HeaderSize:][:le.Uint32(msg.Body[28:])]
	}
	switch code {
	case proto.FsctlRequestResumeKey:
		data = make([]byte, 32)
		le.PutUint64(data, h.node.id)
	case proto.FsctlCopyChunkWrite:
		data = make([]byte, 12)
		total := 0
		for _, from := range m.nodes {
			if from.id != le.Uint64(in) {
				continue
			}
			for x := in[32:]; len(x) >= 24; x = x[24:] {
				src, n := int(le.Uint64(x)), int(le.Uint32(x[16:]))
				h.node.put(int(le.Uint64(x[8:])), append([]byte(nil), from.data[src:src+n]...))
				total += n
			}
		}
		le.PutUint32(data[8:], uint32(total))
	case proto.FsctlSetZeroData:
		clear(h.node.data[le.Uint64(in):le.Uint64(in[8:])])
	case proto.FsctlQueryAllocatedRanges:
		data = h.node.allocated()
	case proto.FsctlEnumerateSnapshots:
		data = make([]byte, 16)
	case proto.FsctlGetReparsePoint:
		data = proto.AppendSymlink(nil, "target", proto.SymlinkRelative)
	case proto.FsctlSetSparse:
		h.node.sparse = true
	case proto.FsctlSetReparsePoint:
	default:
		c.Refuse(msg, proto.StatusNotSupported)
		return
	}
	b := make([]byte, 48, 48+len(data))
	b[0] = 49
	le.PutUint32(b[4:], code)
	copy(b[8:24], msg.Body[8:24])
	le.PutUint32(b[32:], proto.HeaderSize+48)
	le.PutUint32(b[36:], uint32(len(data)))
	c.Reply(msg, 0, append(b, data...), script.AsAsked)
}

func (m *memoryDisk) list(c *script.Conn, msg *script.Message, h *memoryHandle) {
	const restart = 1
	if h.listed && msg.Body[3]&restart == 0 {
		c.Refuse(msg, proto.StatusNoMoreFiles)
		return
	}
	h.listed = true
	var entries []script.Entry
	for _, name := range []string{"a", "b", "c"} {
		if n := m.nodes[h.name+`\`+name]; n != nil {
			entries = append(entries, script.Entry{Name: name, Attributes: proto.AttrNormal, ID: n.id})
		}
	}
	if len(entries) == 0 {
		c.Refuse(msg, proto.StatusNoSuchFile)
		return
	}
	c.List(msg, entries...)
}
