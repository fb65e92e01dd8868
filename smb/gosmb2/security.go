package smb2

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/tarn-go/tarn/smb"
)

// SecurityInformationRequestFlags is a set of parts of a security descriptor (MS-SMB2 2.2.37).
type SecurityInformationRequestFlags uint32

// Parts of a security descriptor.
const (
	OwnerSecurityInformation SecurityInformationRequestFlags = 1
	GroupSecurityInformation SecurityInformationRequestFlags = 2
	DACLSecurityInformation  SecurityInformationRequestFlags = 4
	SACLSecurityInformation  SecurityInformationRequestFlags = 8
)

// Encoder is a value that encodes itself into a request, such as a security descriptor.
type Encoder interface {
	Size() int       // bytes
	Encode(b []byte) // b has Size bytes
}

// SecurityInfoRaw reads parts of the named file's security descriptor, in its self-relative
// form (MS-DTYP 2.4.6).
func (s *Share) SecurityInfoRaw(name string, info SecurityInformationRequestFlags) ([]byte, error) {
	local, remote, err := s.name("secinfo", name)
	if err != nil {
		return nil, err
	}
	b, err := s.s.SecurityDescriptor(remote, smb.SecurityInfo(info))
	return b, pathError("secinfo", local, err)
}

// SetSecurityInfoRaw replaces parts of the named file's security descriptor with those of sd, which is
// self-relative.
func (s *Share) SetSecurityInfoRaw(name string, flags SecurityInformationRequestFlags, sd Encoder) error {
	local, remote, err := s.name("setsecinfo", name)
	if err != nil {
		return err
	}
	b := make([]byte, sd.Size())
	sd.Encode(b)
	return pathError("setsecinfo", local, s.s.SetSecurityDescriptor(remote, smb.SecurityInfo(flags), b))
}

// SecurityInfoRaw is Share.SecurityInfoRaw of the name that the file was opened by.
func (f *File) SecurityInfoRaw(info SecurityInformationRequestFlags) ([]byte, error) {
	return f.share.SecurityInfoRaw(f.name, info)
}

// SetSecurityInfoRaw is Share.SetSecurityInfoRaw of the name that the file was opened by.
func (f *File) SetSecurityInfoRaw(flags SecurityInformationRequestFlags, sd Encoder) error {
	return f.share.SetSecurityInfoRaw(f.name, flags, sd)
}

// DirEntryPlus is an entry of a directory with its security descriptor. It implements
// fs.DirEntry.
type DirEntryPlus struct {
	os.FileInfo

	// RawSecurityDescriptor is self-relative, as the server sent it.
	RawSecurityDescriptor []byte

	// Err is the error of the query for the security descriptor.
	Err error
}

var _ fs.DirEntry = (*DirEntryPlus)(nil)

// Type is the type bits of the file's mode.
func (d *DirEntryPlus) Type() os.FileMode { return d.FileInfo.Mode().Type() }

// Info is the os.FileInfo.
func (d *DirEntryPlus) Info() (os.FileInfo, error) { return d.FileInfo, nil }

// Name is the file's name.
func (d *DirEntryPlus) Name() string { return d.FileInfo.Name() }

// plusWorkers is how many security descriptors are queried concurrently.
const plusWorkers = 32

// ReaddirPlus is Readdir with security descriptors. The error is that of the listing; the error of an entry
// is in its Err. Files that were deleted meanwhile are left out.
func (f *File) ReaddirPlus(n int, securityInfo SecurityInformationRequestFlags) ([]DirEntryPlus, error) {
	list, err := f.Readdir(n)
	if len(list) == 0 {
		return nil, err
	}
	return f.share.describe(f.name, list, securityInfo), err
}

// ReadDirPlus reads the named directory with security descriptors, sorted by name.
func (s *Share) ReadDirPlus(dirname string, securityInfo SecurityInformationRequestFlags) ([]DirEntryPlus, error) {
	d, err := s.Open(dirname)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	list, err := d.ReaddirPlus(-1, securityInfo)
	if err != nil && err != io.EOF {
		return nil, err
	}
	slices.SortFunc(list, func(a, b DirEntryPlus) int { return strings.Compare(a.Name(), b.Name()) })
	return list, nil
}

// describe adds the security descriptors of the entries of dir.
func (s *Share) describe(dir string, list []os.FileInfo, parts SecurityInformationRequestFlags) []DirEntryPlus {
	entries := make([]DirEntryPlus, len(list))
	gate := make(chan struct{}, plusWorkers)
	var all sync.WaitGroup
	for i, fi := range list {
		gate <- struct{}{}
		all.Go(func() {
			defer func() { <-gate }()
			e := &entries[i]
			e.FileInfo = fi
			name := fi.Name()
			if dir != "" {
				name = dir + `\` + name
			}
			e.RawSecurityDescriptor, e.Err = s.SecurityInfoRaw(name, parts)
		})
	}
	all.Wait()
	return slices.DeleteFunc(entries, func(e DirEntryPlus) bool {
		return errors.Is(e.Err, os.ErrNotExist) || errors.Is(e.Err, statusDeletePending)
	})
}
