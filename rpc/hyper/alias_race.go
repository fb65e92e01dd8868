//go:build race

package hyper

// aliases is false because hyperpb reads, and ignores, up to seven bytes behind a message: these may be another buffer's, which the race detector
// would report.
const aliases = false
