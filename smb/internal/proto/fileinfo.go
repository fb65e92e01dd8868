package proto

// BasicInfo is times and attributes (MS-FSCC 2.4.7).
type BasicInfo struct {
	Times      FileTimes
	Attributes Attributes // 0 in a SET_INFO leaves them; AttrNormal clears all others
}

// BasicInfoSize is the length in bytes of a BasicInfo.
const BasicInfoSize = 40

// Append appends the structure for a SET_INFO of ClassBasic.
func (i *BasicInfo) Append(dst []byte) []byte {
	dst = i.Times.append(dst)
	dst = le.AppendUint32(dst, uint32(i.Attributes))
	return le.AppendUint32(dst, 0)
}

// NetworkOpenInfo holds everything that Stat needs in one structure (MS-FSCC 2.4.34).
type NetworkOpenInfo struct {
	Times      FileTimes
	Allocation uint64 // bytes
	EndOfFile  uint64 // bytes
	Attributes Attributes
}

// DecodeNetworkOpenInfo reads a structure of ClassNetworkOpen.
func DecodeNetworkOpenInfo(b []byte) (NetworkOpenInfo, error) {
	if len(b) < 52 {
		return NetworkOpenInfo{}, malformed("FileNetworkOpenInformation", reasonShort)
	}
	if !isSize(le.Uint64(b[40:])) {
		return NetworkOpenInfo{}, malformed("FileNetworkOpenInformation", reasonLength)
	}
	return NetworkOpenInfo{
		Times:      decodeFileTimes(b),
		Allocation: le.Uint64(b[32:]),
		EndOfFile:  le.Uint64(b[40:]),
		Attributes: Attributes(le.Uint32(b[48:])),
	}, nil
}

// DecodeAttributeTagInfo reads a structure of ClassAttributeTag: the attributes and the
// reparse tag, which is valid with AttrReparsePoint (MS-FSCC 2.4.6).
func DecodeAttributeTagInfo(b []byte) (Attributes, uint32, error) {
	if len(b) < 8 {
		return 0, 0, malformed("FileAttributeTagInformation", reasonShort)
	}
	return Attributes(le.Uint32(b)), le.Uint32(b[4:]), nil
}

// fileID is the id of a file, zero when it has none of 64 bits (MS-FSCC 2.1.9).
func fileID(id uint64) uint64 {
	if id == 1<<64-1 {
		return 0
	}
	return id
}

// DecodeInternalInfo reads a structure of ClassInternal: the file's id (MS-FSCC 2.4.27), zero when it has none.
func DecodeInternalInfo(b []byte) (uint64, error) {
	if len(b) < 8 {
		return 0, malformed("FileInternalInformation", reasonShort)
	}
	return fileID(le.Uint64(b)), nil
}

// DecodeAllInfoPath reads the path of the file in a structure of ClassAll, with backslashes, as the server has it (MS-FSCC 2.4.2).
func DecodeAllInfoPath(b []byte) (string, error) {
	const fixed = 100 // the length of the path in bytes is before it
	if len(b) < fixed {
		return "", malformed("FileAllInformation", reasonShort)
	}
	n := le.Uint32(b[fixed-4:])
	if n%2 != 0 || uint64(n) > uint64(len(b)-fixed) {
		return "", malformed("FileAllInformation", reasonLength)
	}
	return DecodeUTF16(b[fixed:][:n]), nil
}

// FSFullSizeInfo is the size and free space of a file system (MS-FSCC 2.5.4).
type FSFullSizeInfo struct {
	TotalUnits     uint64 // allocation units
	AvailableUnits uint64 // those available to this user
	FreeUnits      uint64 // those free in all
	SectorsPerUnit uint32
	BytesPerSector uint32
}

// UnitSize is the length in bytes of an allocation unit; it cannot overflow.
func (i *FSFullSizeInfo) UnitSize() uint64 {
	return uint64(i.SectorsPerUnit) * uint64(i.BytesPerSector)
}

// DecodeFSFullSizeInfo reads a structure of ClassFSFullSize.
func DecodeFSFullSizeInfo(b []byte) (FSFullSizeInfo, error) {
	if len(b) < 32 {
		return FSFullSizeInfo{}, malformed("FileFsFullSizeInformation", reasonShort)
	}
	return FSFullSizeInfo{
		TotalUnits:     le.Uint64(b),
		AvailableUnits: le.Uint64(b[8:]),
		FreeUnits:      le.Uint64(b[16:]),
		SectorsPerUnit: le.Uint32(b[24:]),
		BytesPerSector: le.Uint32(b[28:]),
	}, nil
}
