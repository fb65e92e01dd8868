package hpack

// The numbers by which this package decides, apart from those of the protocol. Each says why it is what it is.

// What an Encoder remembers and enters.
const (
	// maxBlocks is how many Blocks a connection remembers as bytes: a gRPC client has one a method, a server two.
	maxBlocks = 32
	// maxKept is how many bytes the buffer of an encoded header list may have and be kept.
	maxKept = 16 << 10
	// longLiteral is the length in bytes beyond which a value is Huffman-coded where that is shorter: peers bound the bytes
	// of one string (64 KiB in nghttp2) and the frames of one block, and end the connection beyond.
	longLiteral = 16 << 10
	// maxFirst is how many bytes a value has at most that enters the table when its name is first seen, for the name above all. Without
	// that rule a gRPC request with a deadline takes 26 bytes instead of 17 (docs/design/h2.md).
	maxFirst = 64
	// maxRepeated is how many bytes a value has at most that enters it because it repeats: an eighth of the table.
	maxRepeated = 512
	// minCredential is how many bytes a credential has at least that enters it: a shorter one could be guessed from the compressed
	// length of what an attacker has sent beside it (RFC 7541 section 7.1).
	minCredential = 20
	// maxValues is how many values of one name fields enter. As nothing is evicted, values that repeat for a
	// while and then never again would fill the table: the date of h2http's responses is another each second,
	// and 31 of them take the half of the table that fields may take. Four take an eighth of it.
	maxValues = 4
)

// What a Decoder remembers. With runs that come again as literals a call of 100 bytes from h2load costs a server 3.5 µs of processor time instead of
// 5.5.
const (
	// rememberedBlocks is how many runs of fields a connection remembers: one or two a method that its calls use in turns.
	rememberedBlocks = 16
	// leadingBlocks is how many of them, the first, are compared with a block as a whole; so are an Encoder's first Blocks. A client's calls
	// and a server's use two in turns.
	leadingBlocks = 4
	// missedBlocks is how many blocks that began with nothing remembered are compared with the next ones: half of rememberedBlocks, for
	// calls that use some methods in turns.
	missedBlocks = 8
	// maxRun is how many fields a run has at most: what follows is decoded each time. Common lists have half as many.
	maxRun = 64
	// maxRemembered is how many bytes the key of a run has at most, and how many it may decode to, so that what a connection remembers is
	// at most 256 KiB.
	maxRemembered = 8 << 10
	// maxMissed is how many bytes of the key of a block that was missed are kept: 16 KiB a connection for missedBlocks.
	maxMissed = 2 << 10
	// maxWhole is how many bytes a block has at most that is remembered as it came, too. One of indexed fields alone is shorter.
	maxWhole = 128
	// maxKeptKey is how many bytes the scratch space for a key may have and be kept.
	maxKeptKey = 1 << 10
	// maxKeptFields is the same for each scratch space for fields. It is the default of h2.Limits.Fields: a client that sends as many each
	// time would otherwise cause 40 KB of garbage a request.
	maxKeptFields = 512
)
