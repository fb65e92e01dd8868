// Calls the test service with connect-es in its three protocols, from descriptors that Go wrote.
//   node connect.cjs URL DESCRIPTORS MODULES
const [, , url, descriptors, modules] = process.argv;
const load = require("module").createRequire(modules + "/");
const fs = require("fs");
const { createFileRegistry, fromBinary, create } = load("@bufbuild/protobuf");
const { FileDescriptorSetSchema } = load("@bufbuild/protobuf/wkt");
const { createClient, ConnectError, Code } = load("@connectrpc/connect");
const node = load("@connectrpc/connect-node");

const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, fs.readFileSync(descriptors)));
const service = registry.getService("grpc.testing.TestService");
const message = (name, init) => create(registry.getMessage("grpc.testing." + name), init);

async function run(name, transport, both) {
  const client = createClient(service, transport);
  let header, trailer;
  const body = new Uint8Array(100000).fill(7);
  const out = await client.unaryCall(message("SimpleRequest", { payload: message("Payload", { body }) }),
    { headers: { "x-echo": "hello" }, onHeader: h => { header = h; }, onTrailer: t => { trailer = t; } });
  if (out.payload.body.length !== 100000) throw new Error(name + ": " + out.payload.body.length + " bytes");
  if (header.get("x-echo-header") !== "hello" || trailer.get("x-echo-trailer") !== "hello") throw new Error(name + ": metadata");
  try {
    await client.unaryCall(message("SimpleRequest", { responseStatus: message("EchoStatus", { code: 5, message: "gone" }) }));
    throw new Error(name + ": no error");
  } catch (e) {
    if (!(e instanceof ConnectError) || e.code !== Code.NotFound || e.rawMessage !== "gone") throw e;
  }
  let n = 0;
  const sizes = [1, 50000, 0].map(size => message("ResponseParameters", { size }));
  for await (const m of client.streamingOutputCall(message("StreamingOutputCallRequest", { responseParameters: sizes }))) {
    if (m.payload.body.length !== sizes[n].size) throw new Error(name + ": message " + n);
    n++;
  }
  if (n !== 3) throw new Error(name + ": " + n + " messages");
  if (both) {
    async function* requests() {
      for (let i = 0; i < 5; i++) yield message("StreamingOutputCallRequest", { payload: message("Payload", { body: new Uint8Array(i) }) });
    }
    n = 0;
    for await (const m of client.fullDuplexCall(requests())) if (m.payload.body.length !== n++) throw new Error(name + ": both");
    if (n !== 5) throw new Error(name + ": both directions, " + n);
  }
  console.log("ok " + name);
}

(async () => {
  const o = { baseUrl: url, nodeOptions: { rejectUnauthorized: false } };
  for (const httpVersion of ["1.1", "2"]) for (const useBinaryFormat of [true, false]) {
    const form = (useBinaryFormat ? "proto" : "json") + " over HTTP/" + httpVersion;
    await run("connect " + form, node.createConnectTransport({ ...o, httpVersion, useBinaryFormat }), httpVersion === "2");
    await run("grpc-web " + form, node.createGrpcWebTransport({ ...o, httpVersion, useBinaryFormat }), httpVersion === "2");
    if (httpVersion === "2") await run("grpc " + form, node.createGrpcTransport({ ...o, useBinaryFormat }), true);
  }
  process.exit(0);
})().catch(e => { console.error(e); process.exit(1); });
