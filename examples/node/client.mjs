// A client of ROCmForge built on nothing but @grpc/grpc-js, @grpc/proto-loader and the .proto files.
//
//   node examples/node/client.mjs ADDRESS [PROMPT]
//
// Streams a generation, cancels one, lets one run into its deadline, and reads the details of an error.
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import grpc from '@grpc/grpc-js';
import protoLoader from '@grpc/proto-loader';

const [address, prompt = 'Once upon a time'] = process.argv.slice(2);
if (address === undefined) {
  console.error('usage: client.mjs ADDRESS [PROMPT]');
  process.exit(2);
}

const protos = path.join(path.dirname(fileURLToPath(import.meta.url)), '..', '..', 'proto');
const options = {
  includeDirs: [protos],
  keepCase: true,
  defaults: true,
  longs: String,
  enums: String,
  oneofs: true,
};
const load = (file) => protoLoader.loadSync(file, options);
const { InferenceService } = grpc.loadPackageDefinition(load('rocmforge/v1/inference.proto')).rocmforge.v1;
const errorTypes = { ...load('google/rpc/status.proto'), ...load('google/rpc/error_details.proto') };
const client = new InferenceService(address, grpc.credentials.createInsecure());

/** Calls onChunk for each chunk; resolves with the end, rejects with the gRPC error. */
function generate(request, options, onChunk) {
  return new Promise((resolve, reject) => {
    const call = client.generateStream(request, options);
    let complete;
    call.on('data', (message) => {
      if (message.event === 'chunk') onChunk(message.chunk, call);
      if (message.event === 'complete') complete = message.complete;
    });
    call.on('error', reject);
    call.on('end', () => resolve(complete));
  });
}

/** The reason in the google.rpc.ErrorInfo that every error carries. */
function reasonOf(error) {
  const [bytes] = error.metadata.get('grpc-status-details-bin');
  const { details } = errorTypes['google.rpc.Status'].deserialize(bytes);
  const info = details.find(({ type_url }) => type_url.endsWith('google.rpc.ErrorInfo'));
  return info && errorTypes['google.rpc.ErrorInfo'].deserialize(info.value).reason;
}

const stop = { max_tokens: 60 };
const long = { max_tokens: 400, ignore_eos: true };

const complete = await generate({ text: { text: prompt }, stop, sampling: { temperature: 0 } }, {}, (chunk) =>
  process.stdout.write(chunk.text),
);
console.log(`\n${complete.finish_reason}: ${complete.usage.completion_tokens} tokens`);

let chunks = 0;
const cancelled = await generate({ text: { text: prompt }, stop: long }, {}, (_chunk, call) => {
  chunks += 1;
  if (chunks === 3) call.cancel();
}).catch((error) => error);
console.log(`cancelled after ${chunks} chunks: ${grpc.status[cancelled.code]}`);

const late = await generate({ text: { text: prompt }, stop: long }, { deadline: Date.now() + 20 }, () => {}).catch(
  (error) => error,
);
console.log(`with a deadline of 20 ms: ${grpc.status[late.code]}`);

const wrong = await generate({ text: { text: prompt }, sampling: { top_p: 2 } }, {}, () => {}).catch((error) => error);
console.log(`with top_p 2: ${grpc.status[wrong.code]} ${reasonOf(wrong)}: ${wrong.details}`);

client.close();
