// Calls the test service with grpc-web's own client, binary and text.
//   node grpcweb.cjs URL MODULES
const [, , url, modules] = process.argv;
const load = require("module").createRequire(modules + "/");
process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0";
global.XMLHttpRequest = load("xhr2");
const { GrpcWebClientBase, MethodDescriptor, MethodType } = load("grpc-web");

// The messages are bytes: SimpleRequest{payload: {body: "hello"}} and a failing one.
const hello = Uint8Array.from([0x1a, 0x07, 0x12, 0x05, 0x68, 0x65, 0x6c, 0x6c, 0x6f]);
const fails = Uint8Array.from([0x3a, 0x06, 0x08, 0x05, 0x12, 0x02, 0x6e, 0x6f]);
const bytes = x => x;
const unary = new MethodDescriptor("/grpc.testing.TestService/UnaryCall", MethodType.UNARY, Uint8Array, Uint8Array, bytes, bytes);

async function run(format) {
  const client = new GrpcWebClientBase({ format });
  const call = (message, metadata) => new Promise((done, failed) =>
    client.rpcCall(url + "/grpc.testing.TestService/UnaryCall", message, metadata, unary, (err, out) => err ? failed(err) : done(out)));
  const out = await call(hello, { "x-echo": "hello" });
  const want = [0x0a, 0x07, 0x12, 0x05, 0x68, 0x65, 0x6c, 0x6c, 0x6f];
  if (Buffer.compare(Buffer.from(out), Buffer.from(want)) !== 0) throw new Error(format + ": " + Buffer.from(out).toString("hex"));
  try {
    await call(fails, {});
    throw new Error(format + ": no error");
  } catch (e) {
    if (e.code !== 5 || e.message !== "no") throw e;
  }
  console.log("ok " + format);
}
(async () => {
  await run("text");
  await run("binary");
  process.exit(0);
})().catch(e => { console.error(e); process.exit(1); });
