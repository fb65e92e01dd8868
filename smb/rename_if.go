package smb

import (
	"context"
	"io/fs"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

// RenameIf is [Share.Rename] of a file or symbolic link if check returns nil. Otherwise it returns the error of check, and renames nothing.
// check gets a description as that of [Share.Lstat], and what it describes is what is renamed, also if another client has given the name
// oldname to another file by then. check may be called more than once, also for another file.
func (s *Share) RenameIf(oldname, newname string, check func(fs.FileInfo) error) error {
	return linkError("rename", oldname, newname, s.renameIf(oldname, proto.RenameInfo{Name: newname, Replace: true}, check))
}

// RenameNoReplaceIf is RenameIf, but fails with fs.ErrExist when newname exists. It renames directories, too.
func (s *Share) RenameNoReplaceIf(oldname, newname string, check func(fs.FileInfo) error) error {
	return linkError("rename", oldname, newname, s.renameIf(oldname, proto.RenameInfo{Name: newname}, check))
}

func (s *Share) renameIf(oldname string, to proto.RenameInfo, check func(fs.FileInfo) error) error {
	return s.giveName(opRenameIf, oldname, to, func(v view, ctx context.Context, from string, to *proto.RenameInfo) error {
		if err := v.awaitUnanswered(ctx, to.Name); err != nil {
			return err
		}
		req := renameRequest(from)
		req.Contexts.QueryOnDiskID = true
		look := v.described(ctx, oldname, check)
		var made fileIdentity
		var sparse bool
		err := v.decide(ctx, req, func(r *proto.CreateResponse) (decision, error) {
			made, sparse = fileIdentityOf(r), r.Attributes&proto.AttrSparse != 0
			return decision{steps: []step{v.renameStep(to)}}, look(r)
		})
		if err == nil && sparse {
			v.markSparse(ctx, to.Name, made)
		}
		return err
	})
}
