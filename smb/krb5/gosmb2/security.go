package smb2

import (
	"fmt"
	"io/fs"

	"github.com/cloudsoda/sddl"

	smb2 "github.com/tarn-go/tarn/smb/gosmb2"
)

// SecurityDescriptorEncoder writes a security descriptor into a request.
type SecurityDescriptorEncoder struct {
	*sddl.SecurityDescriptor
}

var _ Encoder = (*SecurityDescriptorEncoder)(nil)

// Encode writes the self-relative form to dest.
func (se *SecurityDescriptorEncoder) Encode(dest []byte) { copy(dest, se.Binary()) }

// Size is the length of the self-relative form in bytes.
func (se *SecurityDescriptorEncoder) Size() int { return len(se.Binary()) }

func parse(raw []byte, err error) (*sddl.SecurityDescriptor, error) {
	if err != nil {
		return nil, err
	}
	sd, err := sddl.FromBinary(raw)
	if err != nil {
		return nil, fmt.Errorf("smb2: security descriptor: %w", err)
	}
	return sd, nil
}

// SecurityInfo reads parts of the named file's security descriptor.
func (s *Share) SecurityInfo(name string, info SecurityInformationRequestFlags) (*sddl.SecurityDescriptor, error) {
	return parse(s.SecurityInfoRaw(name, info))
}

// SetSecurityInfo replaces parts of the named file's security descriptor.
func (s *Share) SetSecurityInfo(name string, flags SecurityInformationRequestFlags, sd *sddl.SecurityDescriptor) error {
	return s.SetSecurityInfoRaw(name, flags, &SecurityDescriptorEncoder{sd})
}

// SecurityInfo reads parts of the file's security descriptor.
func (f *File) SecurityInfo(flags SecurityInformationRequestFlags) (*sddl.SecurityDescriptor, error) {
	return parse(f.SecurityInfoRaw(flags))
}

// SetSecurityInfo replaces parts of the file's security descriptor.
func (f *File) SetSecurityInfo(flags SecurityInformationRequestFlags, sd *sddl.SecurityDescriptor) error {
	return f.SetSecurityInfoRaw(flags, &SecurityDescriptorEncoder{sd})
}

// DirEntryPlus is an entry of a directory with its security descriptor.
type DirEntryPlus struct {
	fs.FileInfo
	SecurityDescriptor *sddl.SecurityDescriptor

	// RawSecurityDescriptor is self-relative, as the server sent it.
	RawSecurityDescriptor []byte

	// Err is the error of the query for the security descriptor.
	Err error
}

var _ fs.DirEntry = (*DirEntryPlus)(nil)

// Type is the type bits of the file's mode.
func (d *DirEntryPlus) Type() fs.FileMode { return d.FileInfo.Mode().Type() }

// Info is the fs.FileInfo.
func (d *DirEntryPlus) Info() (fs.FileInfo, error) { return d.FileInfo, nil }

// Name is the file's name.
func (d *DirEntryPlus) Name() string { return d.FileInfo.Name() }

func described(list []smb2.DirEntryPlus) []DirEntryPlus {
	if list == nil {
		return nil
	}
	out := make([]DirEntryPlus, len(list))
	for i, e := range list {
		out[i] = DirEntryPlus{FileInfo: e.FileInfo, RawSecurityDescriptor: e.RawSecurityDescriptor, Err: e.Err}
		if e.Err == nil {
			out[i].SecurityDescriptor, out[i].Err = parse(e.RawSecurityDescriptor, nil)
		}
	}
	return out
}

// ReaddirPlus is Readdir with security descriptors.
func (f *File) ReaddirPlus(n int, securityInfo SecurityInformationRequestFlags) ([]DirEntryPlus, error) {
	list, err := f.File.ReaddirPlus(n, securityInfo)
	return described(list), err
}

// ReadDirPlus reads the named directory with security descriptors, sorted by name.
func (s *Share) ReadDirPlus(dirname string, securityInfo SecurityInformationRequestFlags) ([]DirEntryPlus, error) {
	list, err := s.Share.ReadDirPlus(dirname, securityInfo)
	return described(list), err
}
