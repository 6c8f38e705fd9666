// A client that misbehaves, as a thread of its own: it is told what to send and how often, and answers when all is over.
import { connect } from 'node:net';
import { parentPort, workerData } from 'node:worker_threads';
import { credentials } from '@grpc/grpc-js';
import {
  ChatInput,
  DetokenizeRequest,
  GenerateStreamRequest,
  InferenceServiceClient,
  TokenizeRequest,
} from '../../dist/shared/generated/rocmforge/v1/inference.js';

const client = new InferenceServiceClient(workerData.address, credentials.createInsecure(), {
  'grpc.max_send_message_length': -1,
});
/** @type {any} */
const TEXT = { $case: 'text', value: { text: 'the fox', parseSpecial: false, addSpecial: undefined } };
const repeated = (count, item) => Array.from({ length: count }, (_, i) => item(i));
const turn = (content) => ({ role: 'user', content });
const chat = (parts) => ({ $case: 'chat', value: ChatInput.fromPartial(parts) });
const stream = (parts, input = TEXT) => ['generateStream', { ...GenerateStreamRequest.fromPartial(parts), input }];
const tokenize = (input) => ['tokenize', { ...TokenizeRequest.create(), input }];

/** Requests of each kind of abuse. */
const ABUSES = {
  'detokenize ids': ({ count }) => [
    'detokenize',
    DetokenizeRequest.fromPartial({ tokenIds: repeated(count, () => 270) }),
  ],
  'tokenize a chat of empty messages': ({ count }) => tokenize(chat({ messages: repeated(count, () => turn('')) })),
  'tokenize text': ({ count }) =>
    tokenize({ $case: 'text', value: { text: 'ab '.repeat(count / 3), parseSpecial: false, addSpecial: true } }),
  'stop strings': ({ count, length, n }) =>
    stream({ n, stop: { maxTokens: 200, strings: repeated(count, (i) => `${i}`.padEnd(length, 'x')) } }),
  'a long request id': ({ length }) => stream({ requestId: 'r'.repeat(length), stop: { maxTokens: 200 } }),
  'a template that loops': () => stream({ stop: { maxTokens: 5 } }, chat({ messages: [turn('loop')] })),
  'metrics in one write': ({ port, count }) => {
    const words = 'GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(count);
    return () =>
      new Promise((resolve) => {
        const socket = connect(port, '127.0.0.1', () => socket.write(words));
        socket.on('error', () => undefined);
        socket.on('close', () => resolve('closed'));
        socket.resume();
      });
  },
  'a flood': ({ maxTokens }) => stream({ stop: { maxTokens, ignoreEos: true } }),
};

/** Sends a method's message; whatever else an abuse does, it does itself. */
function send(what) {
  if (typeof what === 'function') return what();
  const [method, message] = what;
  return new Promise((resolve) => {
    const over = (error) => resolve(error === null ? 'OK' : error.details);
    if (method !== 'generateStream') {
      client[method](message, over);
      return;
    }
    const call = client.generateStream(message);
    call.on('data', () => undefined);
    call.on('error', over);
    call.on('end', () => over(null));
  });
}

const port = /** @type {import('node:worker_threads').MessagePort} */ (parentPort);
port.on('message', async ({ abuse, times = 1, rounds = 1, settings = {} }) => {
  const message = ABUSES[abuse](settings);
  port.postMessage({ event: 'begun' });
  const answers = [];
  for (let round = 0; round < rounds; round++)
    answers.push(...(await Promise.all(repeated(times, () => send(message)))));
  port.postMessage({ event: 'over', answers });
});
