// Asks for long response headers on grpc-js, beside a stream on the same connection. Arguments: the file of descriptors, the server's
// address, and where the modules are. Prints how each call ended, and what the stream received next.
const fs = require('fs')
const [, , descriptors, addr, modules] = process.argv
const grpc = require(modules + '/@grpc/grpc-js')
const loader = require(modules + '/@grpc/proto-loader')
const { TestService } = grpc.loadPackageDefinition(
  loader.loadFileDescriptorSetFromBuffer(fs.readFileSync(descriptors), { keepCase: true })).grpc.testing
const client = new TestService(addr, grpc.credentials.createInsecure())
const stream = client.FullDuplexCall()
let received = () => {}
stream.on('data', m => received(String(m.payload.body.length)))
stream.on('error', err => received(err.message))
const echo = () => new Promise(resolve => { received = resolve; stream.write({ response_parameters: [{ size: 10 }] }) })
const ask = n => new Promise(resolve => {
  const metadata = new grpc.Metadata()
  metadata.set('x-header-size', String(n))
  client.UnaryCall({}, metadata, err => resolve(err ? grpc.status[err.code] : 'OK'))
})
async function main() {
  await echo()
  for (const n of [70000, 80000]) console.log(`a header of ${n}: ${await ask(n)}, the stream: ${await echo()}`)
  stream.end()
  client.close()
}
main()
