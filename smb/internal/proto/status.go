package proto

import "sort"

// Status is an NTSTATUS (MS-ERREF 2.3.1). It is compared with the Status constants; as an error it prints its
// name.
type Status uint32

// Success reports whether s has success or information severity, which means that the request was carried out
// (or, for [StatusPending], accepted).
func (s Status) Success() bool { return s>>30 < 2 }

// Warning reports whether s has warning severity, as [StatusBufferOverflow] has.
func (s Status) Warning() bool { return s>>30 == 2 }

// String is the name of s in MS-ERREF ("STATUS_ACCESS_DENIED"), or its hexadecimal value when the table of
// names lacks it.
func (s Status) String() string {
	i := sort.Search(len(statusNames), func(i int) bool { return statusNames[i].status >= s })
	if i < len(statusNames) && statusNames[i].status == s {
		return statusNames[i].name
	}
	return "NTSTATUS " + hex(uint32(s))
}

// Error implements error.
func (s Status) Error() string { return s.String() }

func hex(v uint32) string {
	const digits = "0123456789abcdef"
	out := [10]byte{'0', 'x'}
	for i := range 8 {
		out[2+i] = digits[v>>(28-4*i)&15]
	}
	return string(out[:])
}
