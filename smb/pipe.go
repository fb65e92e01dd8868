package smb

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/tarn-go/tarn/smb/internal/conn"
	"github.com/tarn-go/tarn/smb/internal/dcerpc"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// pipe is an open named pipe on a server (MS-SMB2 4.8).
type pipe struct {
	t  *tree
	id proto.FileID
}

// pipeRoom is how many bytes one answer on a pipe may have.
const pipeRoom = 16 << 10

// pipeTimeout is how long the server may take for one request on a pipe, if neither the caller's context nor Limits.OperationTimeout
// bounds it. The answer comes from another process of the server's, which may hang while the server acknowledges requests. smbclient
// waits as long.
const pipeTimeout = 30 * time.Second

// errPipeTimeout is returned when the server has acknowledged a request on a pipe, but not answered it within pipeTimeout.
var errPipeTimeout error = &classError{"smb: the server has not answered a request on its pipe within 30 seconds", os.ErrDeadlineExceeded}

// withinPipeTimeout makes one request on a pipe.
func withinPipeTimeout(ctx context.Context, request func(ctx context.Context) error) error {
	if _, bounded := ctx.Deadline(); bounded {
		return request(ctx)
	}
	inTime, cancel := context.WithTimeout(ctx, pipeTimeout)
	defer cancel()
	err := request(inTime)
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return errPipeTimeout
	}
	return err
}

// pipeEnded reports whether err says that the process of the server's at the other end of a pipe has ended.
func pipeEnded(err error) bool {
	switch statusOf(err) {
	case proto.StatusConnectionDisconnected, proto.StatusPipeDisconnected, proto.StatusPipeBroken:
		return true
	}
	return false
}

// Transact writes request to the pipe and appends the first part of the answer to dst
// (FSCTL_PIPE_TRANSCEIVE).
func (p *pipe) Transact(ctx context.Context, request, dst []byte) ([]byte, error) {
	room := min(pipeRoom, p.t.Conn().Terms().MaxTransact)
	cl := p.t.Call(proto.CommandIoctl)
	cl.Expect = room
	req := proto.IoctlRequest{Code: proto.FsctlPipeTransceive, FileID: p.id, Input: request, Output: uint32(room)}
	if err := p.roundTrip(ctx, cl, &req); err != nil {
		return dst, err
	}
	defer cl.Release()
	r, err := proto.DecodeIoctlResponse(cl.Message())
	if err != nil {
		return dst, p.t.Malformed(err)
	}
	return append(dst, r.Output...), nil
}

// Read appends the next part of an answer to dst.
func (p *pipe) Read(ctx context.Context, dst []byte) ([]byte, error) {
	cl := p.t.Call(proto.CommandRead)
	n := min(pipeRoom, p.t.Conn().Terms().MaxRead)
	cl.Expect = n
	if err := p.roundTrip(ctx, cl, &proto.ReadRequest{Length: uint32(n), FileID: p.id}); err != nil {
		return dst, err
	}
	defer cl.Release()
	r, err := proto.DecodeReadResponse(cl.Message())
	if err != nil {
		return dst, p.t.Malformed(err)
	}
	if len(r.Data) == 0 {
		return dst, io.ErrUnexpectedEOF
	}
	return append(dst, r.Data...), nil
}

func (p *pipe) roundTrip(ctx context.Context, cl *conn.Call, request conn.Request) error {
	return withinPipeTimeout(ctx, func(ctx context.Context) error {
		return p.t.RoundTrip(ctx, cl, request, proto.StatusBufferOverflow)
	})
}

// Shares lists the server's shares (MS-SRVS NetrShareEnum over the pipe srvsvc). A name that is a path, or cannot be expressed, is left
// out: Shares then returns the others and an error that matches ErrName. If neither ctx nor Limits.OperationTimeout has a deadline, the
// server has 30 seconds for each request; then the error matches os.ErrDeadlineExceeded.
func (s *Session) Shares(ctx context.Context) ([]ShareInfo, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	ipc, err := s.Mount(ctx, "IPC$")
	if err != nil {
		return nil, err
	}
	ipc = ipc.WithContext(ctx)
	defer ipc.Unmount()
	var shares []dcerpc.Share
	err = ipc.run(operation{kind: opList, name: "srvsvc", do: func(ctx context.Context, t view, remote string) (err error) {
		shares, err = ipc.listShares(ctx, t, remote)
		if pipeEnded(err) { // Samba starts that process again
			shares, err = ipc.listShares(ctx, t, remote)
		}
		return err
	}})
	var list []ShareInfo
	var leftOut *leftOutError
	for _, x := range shares {
		if !isEntryName(x.Name) {
			leftOut = leftOut.and(x.Name)
			continue
		}
		list = append(list, ShareInfo{Name: x.Name, Comment: strings.ToValidUTF8(x.Comment, "\ufffd"), Type: ShareType(x.Type)})
	}
	if err == nil && leftOut != nil {
		err = leftOut
	}
	return list, err
}

// listShares lists the shares over a newly opened pipe.
func (s *Share) listShares(ctx context.Context, t view, remote string) ([]dcerpc.Share, error) {
	var h *handle
	err := withinPipeTimeout(ctx, func(ctx context.Context) (err error) {
		h, err = s.open(ctx, t, "srvsvc", remote, &proto.CreateRequest{
			Access: proto.AccessReadData | proto.AccessWriteData | proto.AccessAppendData | proto.AccessReadAttributes |
				proto.AccessReadControl | proto.AccessSynchronize,
			Share:       proto.ShareRead | proto.ShareWrite,
			Disposition: proto.DispositionOpen,
			Name:        remote,
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	// A server that waits for the process at the other end may let CLOSE wait, too.
	defer func() { _ = withinPipeTimeout(ctx, h.close) }()
	return dcerpc.ListShares(ctx, &pipe{t.tree, h.id}, t.with.host)
}
