package h2

import "time"

// The numbers by which this package decides, apart from those of the protocol and the defaults of Config. Each says why it is what it is; where
// it is what others have, or was measured, the comment says so.

// What is sent together, and how much may wait.
const (
	// batchLimit is how many bytes a batch has before DATA and new streams wait for the next one.
	batchLimit = 256 << 10
	// blockedLimit is the same while the writer goroutine sends: what is queued then waits for the network, so that it bounds what
	// a PING or a small call waits for, together with the batch under way and with unsentLimit.
	blockedLimit = 128 << 10
	// fastLimit takes the place of both where the peer is near and fast: such a batch leaves in a few milliseconds, and control frames
	// between its frames. With 256 KiB, both ends of 8 callers of 1 MiB take 1.18 times the processor time (docs/design/h2.md).
	fastLimit = 1 << 20
	// minFill is how much DATA of waiting streams joins a batch that is full already,
	// so that small frames cannot keep it back for ever.
	minFill = 16 << 10
	// refuseAbove is how many bytes may wait to be sent before a server refuses
	// further streams: the peer asks and does not read. DATA of writers that wait stops at
	// batchLimit, which any peer reaches whose network is slower than a handler; beyond it
	// are header lists, resets and DATA of Post, of which no more is taken then either.
	refuseAbove = 2 << 20
	// mostQueued is how many bytes may wait when DATA comes; then the connection ends. Beyond refuseAbove are header lists of streams that
	// are open, whose number is bounded, and WINDOW_UPDATEs, of which a peer that sends and does not read makes 13 bytes for each 64 KiB.
	mostQueued = 8 << 20
	// callerBatches is how many batches a caller sends, of other callers as well,
	// before a writer goroutine takes over.
	callerBatches = 6
	// shortBatches is the same while they have fewer than batchLimit bytes together: each
	// leaves in a few microseconds, and a writer goroutine must first get a processor,
	// while everything that is queued waits.
	shortBatches = 64
	// unsentLimit is how many bytes the system may hold that it has not sent, unless the peer is near and fast. Otherwise it
	// holds megabytes, which a small call, a PING or a WINDOW_UPDATE waits for, whatever the order of frames here.
	unsentLimit = 128 << 10
	// minBlocked is the least that blockedLimit and unsentLimit become where the peer is slow. A PING waits for about four times
	// as much: half a second at 1 Mbit/s.
	minBlocked = 16 << 10
	// slowBatch is how long the sending of a batch takes from which on the peer is slow, however near: below 6 MB/s.
	slowBatch = 20 * time.Millisecond
	// blockedTime is for how long the bytes that wait here, and in the system, are sent to a slow peer.
	blockedTime = 100 * time.Millisecond
	// fastBatch is how long the sending of a batch of unsentLimit bytes takes at most where the system may hold any number: from
	// 130 MB/s on each wait for a socket costs the peer time.
	fastBatch = time.Millisecond
	// fastAfter is how many bytes must have been sent before: the buffers of both systems take the first ones quickly.
	fastAfter = 2 << 20
	// quickAgain is how many batches must leave that quickly after one that took slowBatch. On a busy machine a goroutine may wait as long as
	// that for a processor, and the peer is not slow; a slow one takes none of them so quickly.
	quickAgain = 16
	// gatherFrom is how many streams must be in use for a caller to expect frames of
	// others. With 64 callers gathering takes a tenth of the writes and a third of the time.
	gatherFrom = 2
	// maxYields is how often the goroutine that is to write yields, as long as each
	// time another one queues something.
	maxYields = 4
	// goodBatch is how many bytes are worth a system call without waiting for more.
	goodBatch = 16 << 10
	// maxYield is how long the goroutine that is to write yields in all: where processors are scarce, each time may
	// take long.
	maxYield = 50 * time.Microsecond
	// clientYield and serverYield are how many frames the reading goroutine delivers before it yields to those that they have woken. A request is
	// two frames and a response three, and a server's workers are fewer than a client's callers. docs/design/h2.md has what they are worth.
	clientYield, serverYield = 32, 64
	// supplySize is how many bytes a Source is asked for at most: two such pieces make a batch.
	supplySize = 128 << 10
	// turnBytes is how many bytes of DATA a stream sends before the next one has its turn. The DATA of a stream that waits
	// alone is not divided.
	turnBytes = 128 << 10
	// longTurn takes its place where the peer is near and fast, and as much waits of every stream: then the peer's program is called, and
	// reads, a third as often for a message of 1 MiB.
	longTurn = 512 << 10
)

// Windows.
const (
	// maxReturn bounds how many bytes of a window are kept back until they are worth a
	// WINDOW_UPDATE.
	maxReturn = 1 << 20
	// growth is the factor by which the window grows at a time where a round trip is longer than steadyRTT: each time takes one, in which
	// the peer waits.
	growth = 64
	// nearWindow is what a stream's window grows to where a round trip is not longer than steadyRTT, if it grows by nearGrowth. With less, a
	// gRPC message of 1 MiB comes in several turns: on an AMD EPYC each took an eighth more processor time. With more, bytes leave the
	// processor's caches before they are read: on an Intel Xeon an upload of 64 MiB took 2.4 times as long with 1 MiB and more as with 512 KiB
	// and less, so that h2http's first window stays as it is. docs/notes/performance.md has both.
	nearWindow = 1 << 20
	nearGrowth = 4
	// certainRTT is from when a round trip is not doubted that one acknowledgement alone has shown. A shorter one may be
	// mostly the time for which a goroutine or thread waited for a processor.
	certainRTT = 8 * time.Millisecond
	// steadyRTT is a round trip that a window need not exceed, since it does not leave the
	// machine or the rack. Longer ones vary with the load on the way and on both ends.
	steadyRTT = time.Millisecond
)

// Reading.
const (
	// onePieceBelow is the length of DATA in bytes below which it is delivered in one
	// piece even if part of it has yet to arrive.
	onePieceBelow = 4 << 10
	// shrinkFrom is the length of DATA in bytes from which another system call costs less
	// than copying what the receive buffer has of it.
	shrinkFrom = 32 << 10
	// peekBlock is the longest HEADERS frame, in bytes, that is decoded where it was
	// read; a longer one is copied together first.
	peekBlock = 32 << 10
	// longFactor is how many times longer than what is gathered a header block may be
	// before the connection, not the stream alone, is ended: sixteen times MaxHeaderList, as Limits.Continuations says.
	longFactor = 8
	// maxKeptBlock is how many bytes the buffer in which a header block is gathered may have and be kept.
	maxKeptBlock = 16 << 10
	// uncountedHeaders is how much of a stream's header lists does not count for Limits.AllHeaderMemory, in bytes: what a stream
	// costs anyway. Common requests then change no counter that all connections share.
	uncountedHeaders = 4 << 10
	// moderateFrom is how many streams must be open for reads to be moderated.
	moderateFrom = 16
	// quickRead is how soon reads follow each other that are moderated.
	quickRead = 200 * time.Microsecond
	// goodRead is how many frames are worth a read without waiting for more.
	goodRead = 64
	// streamDelay is how long a moderated read waits for each stream that is open. A
	// longer wait has to be worth it: few streams send little during it.
	streamDelay = 400 * time.Nanosecond
	// minDelay and maxDelay bound the wait. The system adds up to 50 µs (its timer
	// slack).
	minDelay = 20 * time.Microsecond
	maxDelay = 50 * time.Microsecond
	// moderateBytes is how many bytes have to arrive during a wait to be announced by the system. Otherwise
	// each segment wakes the thread that waits for all sockets, although no goroutine waits for it.
	moderateBytes = 16 << 10
)

// What a peer may make this side do.
const (
	// brokenRate, givenUpRate and wasteRate are how many tokens a second are added to an empty bucket. Limits has what a full one holds.
	brokenRate  = 500
	givenUpRate = 5000
	wasteRate   = 100
	// streamsPerFrame is how many streams count like one frame.
	streamsPerFrame = 32
	// delayTime is how long reading is delayed each time, which givenUpRate makes
	// 50 streams.
	delayTime = 10 * time.Millisecond
	// delaysPerReset times Limits.Resets is how often that happens before the connection
	// ends: 20 seconds by default.
	delaysPerReset = 2
	// delaysExpire is the time without any after which they do not count any more.
	delaysExpire = time.Second
	// recentMax is how many streams that this side reset are remembered: 4 KiB a connection that resets as many.
	recentMax = 1024
	// deadlineSlack is how much earlier than this side computed it a call's deadline may
	// pass at the peer.
	deadlineSlack = 10 * time.Millisecond
	// mostDoubtful bounds the streams that were reset and of which the peer may know nothing, where it permits more. net/http has
	// the same bound.
	mostDoubtful = 1000
	// maxSettings is how many settings one frame may carry. HTTP/2 and its extensions have about ten.
	maxSettings = 64
	// maxEarlyPriorities bounds the priorities kept for streams that are not open yet,
	// whatever MaxStreams permits: some 40 bytes each.
	maxEarlyPriorities = 256
	// maxPriorityLen is the longest priority field value that is parsed, in bytes.
	maxPriorityLen = 256
	// maxDebug is how much of a GOAWAY's debug data is sent or kept, in bytes.
	maxDebug = 1 << 10
)

// What is kept.
const (
	// maxFree bounds the spare streams of a connection: as many as most servers permit at a time.
	maxFree = 128
	// streamSlots is how many open streams are found without a map: as many as most servers permit at a time. A map alone takes 3 to 5 % of
	// the processor time of small calls by 64 callers (docs/design/h2.md).
	streamSlots = 128
	// firstStreamSlots is how many there is room for at first, so that a connection on which one request waits does not hold 1 KiB for them.
	firstStreamSlots = 4
)

// Times of a connection.
const (
	// idleAfter is how long nothing must have come on a connection without streams
	// before it is idle. A time shorter than that between a client's calls would make
	// each call pay for what was dropped.
	idleAfter = 500 * time.Millisecond
	// maxIdleBackoff bounds Conn.idleBackoff: the time between deadlines is a minute then.
	maxIdleBackoff = 7
	// abortTimeout is how long a connection that is aborted may take to send its
	// GOAWAY.
	abortTimeout = 250 * time.Millisecond
	// stuckTimeout is how long a connection that ends in order waits for a peer that takes nothing of what is to be sent.
	stuckTimeout = 20 * time.Second
	// closeTimeout is how long it waits for the peer to close, once everything is sent.
	closeTimeout = 5 * time.Second
	// heardTimeout is how long it waits for a peer that sends nothing meanwhile. It is net/http's and grpc-go's.
	heardTimeout = time.Second
	// silentTimeout is how long it waits for one that has sent nothing for silentTime before.
	silentTimeout = 250 * time.Millisecond
	// goAwayTimeout is the longest time between a server's two GOAWAYs.
	goAwayTimeout = 5 * time.Second
	// silentTime is how long a client may send nothing after the PING between them before it counts as silent.
	silentTime = time.Second - silentTimeout // as long together as net/http waits
	// goAwayDelay is how long after its last stream has ended a server sends the PING between
	// its two GOAWAYs. net/http closes the connection after that time.
	goAwayDelay = time.Second
)
