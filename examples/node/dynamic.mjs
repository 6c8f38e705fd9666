// A client of ROCmForge in Node.js without generated code: @grpc/proto-loader reads the .proto files at run time.
//
//   npm install ./rocmforge-*.tgz @grpc/grpc-js @grpc/proto-loader
//   node dynamic.mjs 127.0.0.1:50051 [PROMPT]
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import grpc from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';

const [address, prompt = 'Once upon a time'] = process.argv.slice(2);
if (address === undefined) {
  console.error('usage: dynamic.mjs ADDRESS [PROMPT]');
  process.exit(2);
}
const proto = path.dirname(
  path.dirname(path.dirname(fileURLToPath(import.meta.resolve('rocmforge/proto/rocmforge/v1/inference.proto')))),
);
const options = { keepCase: false, longs: String, enums: String, defaults: true, oneofs: true, includeDirs: [proto] };
const { rocmforge } = grpc.loadPackageDefinition(loadSync('rocmforge/v1/inference.proto', options));
const client = new rocmforge.v1.InferenceService(address, grpc.credentials.createInsecure());

const stream = client.generateStream({ text: { text: prompt }, stop: { maxTokens: 60 }, sampling: { temperature: 0 } });
for await (const { chunk, complete } of stream) {
  if (chunk) process.stdout.write(chunk.text);
  else if (complete) console.log(`\n${complete.finishReason}: ${complete.usage.completionTokens} tokens`);
}
client.close();
