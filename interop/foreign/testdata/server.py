# The interop test service on grpcio. Arguments: the file of descriptors, and JSON with port, maxStreams, maxAge (ms), cert, key, gzip.
# Prints its port. A line on standard input ends it gracefully, its end ends it at once.
import json, os, sys, threading, time
from concurrent import futures

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

with open(sys.argv[1], "rb") as f:
    files = descriptor_pb2.FileDescriptorSet.FromString(f.read())
pool = descriptor_pool.DescriptorPool()
for f in files.file:
    pool.Add(f)
get = getattr(message_factory, "GetMessageClass", None) or message_factory.MessageFactory(pool).GetPrototype
options = json.loads(sys.argv[2])
service = pool.FindServiceByName("grpc.testing.TestService")
lock = threading.Lock()
hanging = 0


def kind(name):
    return get(pool.FindMessageTypeByName("grpc.testing." + name))


Empty, SimpleResponse, Out, In = map(kind, ("Empty", "SimpleResponse", "StreamingOutputCallResponse", "StreamingInputCallResponse"))


def metadata(context):
    """Sends the header and sets the trailer that the request's metadata ask for."""
    got = {k: v for k, v in context.invocation_metadata()}
    header, trailer = [], []
    if "x-grpc-test-echo-initial" in got:
        header.append(("x-grpc-test-echo-initial", got["x-grpc-test-echo-initial"]))
    if "x-header-size" in got:
        header.append(("x-big", "h" * int(got["x-header-size"])))
    if header:
        context.send_initial_metadata(header)
    if "x-grpc-test-echo-trailing-bin" in got:
        trailer.append(("x-grpc-test-echo-trailing-bin", got["x-grpc-test-echo-trailing-bin"]))
    if "x-trailer-size" in got:
        trailer.append(("x-big", "t" * int(got["x-trailer-size"])))
    if "x-details-bin" in got:
        trailer.append(("grpc-status-details-bin", got["x-details-bin"]))
    context.set_trailing_metadata(trailer)
    if "x-hang" in got:
        global hanging
        ended = threading.Event()
        with lock:
            hanging += 1
        if context.add_callback(ended.set):
            ended.wait()
        with lock:
            hanging -= 1


def end(context, request):
    for code in grpc.StatusCode:
        if request.response_status.code and code.value[0] == request.response_status.code:
            context.abort(code, request.response_status.message)


def empty(request, context):
    metadata(context)
    with lock:
        context.set_trailing_metadata([("x-hanging", str(hanging))])
    return Empty()


def unary(request, context):
    metadata(context)
    end(context, request)
    m = SimpleResponse()
    m.payload.body = bytes(request.response_size)
    return m


def send(request):
    for p in request.response_parameters:
        time.sleep(p.interval_us / 1e6)
        m = Out()
        m.payload.body = bytes(p.size)
        yield m


def output(request, context):
    metadata(context)
    yield from send(request)


def collect(requests, context):
    metadata(context)
    m = In()
    for r in requests:
        m.aggregated_payload_size += len(r.payload.body)
    return m


def duplex(requests, context):
    metadata(context)
    for r in requests:
        end(context, r)
        yield from send(r)


def half(requests, context):
    for r in list(requests):
        yield from send(r)


handlers = {"EmptyCall": empty, "UnaryCall": unary, "CacheableUnaryCall": unary, "StreamingOutputCall": output,
            "StreamingInputCall": collect, "FullDuplexCall": duplex, "HalfDuplexCall": half}


def handler(method):
    shape = {(False, False): grpc.unary_unary_rpc_method_handler, (False, True): grpc.unary_stream_rpc_method_handler,
             (True, False): grpc.stream_unary_rpc_method_handler, (True, True): grpc.stream_stream_rpc_method_handler}
    p = descriptor_pb2.MethodDescriptorProto()
    method.CopyToProto(p)
    return shape[p.client_streaming, p.server_streaming](handlers[method.name], get(method.input_type).FromString,
                                                        get(method.output_type).SerializeToString)


args = []
if options.get("maxStreams"):
    args.append(("grpc.max_concurrent_streams", options["maxStreams"]))
if options.get("maxAge"):
    args += [("grpc.max_connection_age_ms", options["maxAge"]), ("grpc.max_connection_age_grace_ms", 10000)]
server = grpc.server(futures.ThreadPoolExecutor(200), options=args,
                     compression=grpc.Compression.Gzip if options.get("gzip") else None)
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(
    "grpc.testing.TestService", {m.name: handler(m) for m in service.methods if m.name in handlers}),))
address = "127.0.0.1:%d" % options.get("port", 0)
if options.get("cert"):
    with open(options["cert"], "rb") as c, open(options["key"], "rb") as k:
        port = server.add_secure_port(address, grpc.ssl_server_credentials([(k.read(), c.read())]))
else:
    port = server.add_insecure_port(address)
server.start()
print(port, flush=True)
if sys.stdin.readline():
    server.stop(600).wait()  # the test bounds it, and kills the process
os._exit(0)
