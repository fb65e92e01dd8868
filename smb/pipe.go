package smb

import (
	"context"
	"io"
	"strings"

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

// Transact writes request to the pipe and appends the first part of the answer to dst
// (FSCTL_PIPE_TRANSCEIVE).
func (p *pipe) Transact(ctx context.Context, request, dst []byte) ([]byte, error) {
	room := min(pipeRoom, p.t.Conn().Terms().MaxTransact)
	cl := p.t.Call(proto.CommandIoctl)
	cl.Expect = room
	req := proto.IoctlRequest{Code: proto.FsctlPipeTransceive, FileID: p.id, Input: request, Output: uint32(room)}
	if err := p.t.RoundTrip(ctx, cl, &req, proto.StatusBufferOverflow); err != nil {
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
	if err := p.t.RoundTrip(ctx, cl, &proto.ReadRequest{Length: uint32(n), FileID: p.id}, proto.StatusBufferOverflow); err != nil {
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

// Shares lists the server's shares (MS-SRVS NetrShareEnum over the pipe srvsvc). A name that is a path, or cannot be expressed, is left
// out: Shares then returns the others and an error that matches ErrName.
func (s *Session) Shares(ctx context.Context) ([]ShareInfo, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	ipc, err := s.Mount(ctx, "IPC$")
	if err != nil {
		return nil, err
	}
	ipc = ipc.WithContext(ctx)
	defer ipc.Unmount()
	var list []ShareInfo
	var leftOut *leftOutError
	err = ipc.run(operation{kind: opList, name: "srvsvc", do: func(ctx context.Context, t view, remote string) error {
		h, err := ipc.open(ctx, t, "srvsvc", remote, &proto.CreateRequest{
			Access: proto.AccessReadData | proto.AccessWriteData | proto.AccessAppendData | proto.AccessReadAttributes |
				proto.AccessReadControl | proto.AccessSynchronize,
			Share:       proto.ShareRead | proto.ShareWrite,
			Disposition: proto.DispositionOpen,
			Name:        remote,
		})
		if err != nil {
			return err
		}
		defer h.close(ctx)
		shares, err := dcerpc.ListShares(ctx, &pipe{t.tree, h.id}, t.with.host)
		list, leftOut = list[:0], nil
		for _, x := range shares {
			if !isEntryName(x.Name) {
				leftOut = leftOut.and(x.Name)
				continue
			}
			list = append(list, ShareInfo{Name: x.Name, Comment: strings.ToValidUTF8(x.Comment, "\ufffd"), Type: ShareType(x.Type)})
		}
		return err
	}})
	if err == nil && leftOut != nil {
		err = leftOut
	}
	return list, err
}
