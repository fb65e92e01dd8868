package proto

import "time"

// Filetime is a time in units of 100 ns since 1601-01-01 UTC (MS-DTYP 2.3.3). Zero
// means "not set" and, in a SET_INFO, "leave as it is".
type Filetime uint64

// FiletimeKeep in a SET_INFO asks the server to stop updating that time through this
// handle (MS-FSCC 2.4.7).
const FiletimeKeep Filetime = ^Filetime(0)

// 11644473600 s lie between 1601 and 1970.
const filetimeEpoch = 11644473600

// NewFiletime is t, rounded down to 100 ns. Times before 1601, such as the zero time.Time, give 0; those
// beyond 63 bits give the largest value.
func NewFiletime(t time.Time) Filetime {
	sec := t.Unix() + filetimeEpoch
	if sec < 0 {
		return 0
	}
	const last = (1<<63 - 1) / 10_000_000
	if sec >= last {
		return 1<<63 - 1
	}
	return Filetime(sec)*10_000_000 + Filetime(t.Nanosecond()/100)
}

// Time is f in UTC; the zero time.Time when f is not set.
func (f Filetime) Time() time.Time {
	if f == 0 {
		return time.Time{}
	}
	return time.Unix(int64(f/10_000_000)-filetimeEpoch, int64(f%10_000_000)*100).UTC()
}
