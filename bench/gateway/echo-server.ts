/**
 * A plain grpc-js server that streams messages as large as the gateway's and does nothing else: what a message costs.
 *
 *     echo-server.js LISTEN METRICS_PORT STEP_MS
 *
 * Each step it writes one chunk to each stream, from one timer, as a gateway whose step has come back would.
 */
import { createServer } from 'node:http';
import { Server, ServerCredentials, type ServerWritableStream } from '@grpc/grpc-js';
import {
  FinishReason,
  GenerateChunk,
  type GenerateStreamRequest,
  type GenerateStreamResponse,
  InferenceServiceService,
  Model,
  Usage,
} from '../../src/shared/generated/rocmforge/v1/inference.js';

const [, , listen = '', metricsPort = '0', stepMs = '10'] = process.argv;

interface Open {
  readonly call: ServerWritableStream<GenerateStreamRequest, GenerateStreamResponse>;
  left: number;
}
const open = new Set<Open>();
let written = 0;
const requestId = '00000000-0000-0000-0000-000000000000';

const server = new Server();
server.addService(InferenceServiceService, {
  getModel: (_call: unknown, callback: (error: null, response: unknown) => void) =>
    callback(null, {
      model: Model.fromPartial({ name: 'echo', contextLength: 1 << 20, vocabularySize: 299, device: 'none' }),
    }),
  generateStream: (call: Open['call']) => {
    open.add({ call, left: call.request.stop?.maxTokens ?? 1 });
  },
});
setInterval(() => {
  for (const stream of open) {
    const { call } = stream;
    const value = GenerateChunk.fromPartial({ tokenIds: [260 + (written % 30)], text: ' fox' });
    call.write({ requestId, event: { $case: 'chunk', value } });
    written += 1;
    stream.left -= 1;
    if (stream.left > 0) continue;
    open.delete(stream);
    const usage = Usage.fromPartial({ promptTokens: 1, completionTokens: 1 });
    const complete = {
      index: 0,
      finishReason: FinishReason.LENGTH,
      stopMatch: undefined,
      usage,
      promptText: '',
      seed: 0n,
    };
    call.write({ requestId, event: { $case: 'complete', value: complete } });
    call.end();
  }
}, Number(stepMs));
createServer((_request, response) => {
  const { user, system } = process.cpuUsage();
  response.end(`process_cpu_seconds_total ${(user + system) / 1e6}\nrocmforge_generation_tokens_total ${written}\n`);
}).listen(Number(metricsPort), '127.0.0.1');
server.bindAsync(listen, ServerCredentials.createInsecure(), () => process.stdout.write('listening\n'));
process.on('SIGTERM', () => process.exit(0));
