// Package hyper has requests and responses of package rpc that are decoded by hyperpb, buf's parser for read-only messages. It allocates
// nothing for a message that is lent: the message, its strings and its bytes fields are views of a pool's memory and of an arena, both freed
// with the call. A handler reads it by protoreflect.
//
// DANGERS. hyperpb is built on package unsafe, runs on amd64 and arm64 alone, and has had no release since September 2025. A message, and
// whatever it returned (messages, lists, maps, strings, bytes), is valid as long as [rpc.LendRequests] says: until a unary handler's response has
// been encoded, and in a stream until the next RecvMsg. Afterwards its memory has other content, and Go's memory safety does not hold for
// one that is kept. [rpc.CheckLent] finds what handlers keep.
//
//	var batch = hyper.Compile((*pb.Batch)(nil).ProtoReflect().Descriptor())
//
//	func export(ctx context.Context, in *hyper.Message) (proto.Message, error) {
//		records := in.Get(batch.Field("records")).List()
//		return &pb.Seen{Records: int64(records.Len())}, nil
//	}
//
//	s := rpc.NewServer(rpc.LendRequests("/pkg.Logs/Export"))
//	s.RegisterService(hyper.Method(&pb.Logs_ServiceDesc, "Export", batch, export), impl)
//
// In a stream, RecvMsg takes a [Type.New] in the place of a generated message, on both sides. A response of a unary call is decoded to one by
// Invoke. Without rpc.LendRequests and rpc.LendResponse messages are copies that the garbage collector frees.
package hyper
