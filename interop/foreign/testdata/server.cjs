// The interop test service on grpc-js. Arguments: the file of descriptors, JSON with port, maxStreams, maxAge (ms), cert, key,
// gzip, and where the modules are. Prints its port. A line on standard input ends it gracefully, its end ends it at once.
const fs = require('fs')
const [, , descriptors, json, modules] = process.argv
const grpc = require(modules + '/@grpc/grpc-js')
const loader = require(modules + '/@grpc/proto-loader')
const options = JSON.parse(json)
const { TestService } = grpc.loadPackageDefinition(
  loader.loadFileDescriptorSetFromBuffer(fs.readFileSync(descriptors), { keepCase: true })).grpc.testing

let hanging = 0
// metadata sends the header that the request's metadata ask for and returns the trailer; then waits when they ask for it.
async function metadata(call) {
  const got = call.metadata, header = new grpc.Metadata(), trailer = new grpc.Metadata()
  const value = k => got.get(k)[0]
  if (value('x-grpc-test-echo-initial')) header.set('x-grpc-test-echo-initial', value('x-grpc-test-echo-initial'))
  if (value('x-header-size')) header.set('x-big', 'h'.repeat(+value('x-header-size')))
  if (header.toJSON && Object.keys(header.getMap()).length) call.sendMetadata(header)
  if (value('x-grpc-test-echo-trailing-bin')) trailer.set('x-grpc-test-echo-trailing-bin', value('x-grpc-test-echo-trailing-bin'))
  if (value('x-trailer-size')) trailer.set('x-big', 't'.repeat(+value('x-trailer-size')))
  if (value('x-details-bin')) trailer.set('grpc-status-details-bin', value('x-details-bin'))
  if (value('x-hang')) {
    hanging++
    await new Promise(resolve => call.cancelled ? resolve() : call.on('cancelled', resolve))
    hanging--
  }
  return trailer
}
const failure = (request, trailer) => request.response_status && request.response_status.code &&
  { code: request.response_status.code, details: request.response_status.message, metadata: trailer }
const payload = n => ({ payload: { body: Buffer.alloc(n) } })
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))
async function send(call, request) {
  for (const p of request.response_parameters || []) {
    if (p.interval_us) await sleep(p.interval_us / 1000)
    if (call.cancelled) return
    if (!call.write(payload(p.size || 0))) await new Promise(resolve => { call.once('drain', resolve); call.once('cancelled', resolve) })
  }
}
// requests calls f for each request in turn, and then done.
function requests(call, f, done) {
  let last = Promise.resolve()
  call.on('data', m => { last = last.then(() => f(m)) })
  call.on('end', () => last.then(done))
  call.on('error', () => {})
}

const server = new grpc.Server({
  ...(options.maxStreams && { 'grpc.max_concurrent_streams': options.maxStreams }),
  ...(options.maxAge && { 'grpc.max_connection_age_ms': options.maxAge, 'grpc.max_connection_age_grace_ms': 10000 }),
  ...(options.gzip && { 'grpc.default_compression_algorithm': 2 }),
})
const unary = async (call, reply) => {
  const trailer = await metadata(call)
  const failed = failure(call.request, trailer)
  failed ? reply(failed) : reply(null, payload(call.request.response_size || 0), trailer)
}
server.addService(TestService.service, {
  EmptyCall: async (call, reply) => {
    const trailer = await metadata(call)
    trailer.set('x-hanging', String(hanging))
    reply(null, {}, trailer)
  },
  UnaryCall: unary,
  CacheableUnaryCall: unary,
  StreamingOutputCall: async call => {
    const trailer = await metadata(call)
    await send(call, call.request)
    call.end(trailer)
  },
  StreamingInputCall: async (call, reply) => {
    const trailer = metadata(call)
    let sum = 0
    requests(call, m => { sum += m.payload && m.payload.body ? m.payload.body.length : 0 },
      async () => reply(null, { aggregated_payload_size: sum }, await trailer))
  },
  FullDuplexCall: async call => {
    const trailer = metadata(call)
    let over = false
    requests(call, async m => {
      const failed = failure(m, await trailer)
      if (failed && !over) { over = true; call.emit('error', failed) }
      if (!over) await send(call, m)
    }, async () => over || call.end(await trailer))
  },
  HalfDuplexCall: call => {
    const all = []
    requests(call, m => { all.push(m) }, async () => { for (const m of all) await send(call, m); call.end() })
  },
})
const creds = options.cert
  ? grpc.ServerCredentials.createSsl(null, [{ cert_chain: fs.readFileSync(options.cert), private_key: fs.readFileSync(options.key) }])
  : grpc.ServerCredentials.createInsecure()
server.bindAsync('127.0.0.1:' + (options.port || 0), creds, (err, port) => {
  if (err) throw err
  console.log(port)
})
process.stdin.once('data', () => server.tryShutdown(() => process.exit(0)))
process.stdin.once('end', () => process.exit(0))
