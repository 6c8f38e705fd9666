import { afterAll, beforeAll, expect, it } from 'vitest';
import {
  ChatInput,
  type GenerateChunk,
  type GenerateStreamResponse,
} from '../../src/shared/generated/rocmforge/v1/inference.js';
import { request, startTestGateway, type TestGateway } from '../support/gateway.js';
import { writeRandomModel } from '../support/random-model.js';

/** What a model of random weights is made to say, in random order: it comes to calls and text. */
const FRAGMENTS = ['<tool_call>{"name":"weather","arguments":{"place":"', 'Rome', '東京', '"}}</tool_call>', 'So'];
const FIRST_WORD = 259;
/** Added to their logits: nothing else is said. */
const COMMON = 100;

let server: TestGateway;
beforeAll(async () => {
  const bytes = Array.from({ length: 256 }, (_, i) => `<0x${i.toString(16).toUpperCase().padStart(2, '0')}>`);
  const words = Array.from({ length: 40 }, (_, i) => FRAGMENTS[i] ?? `word${i}`);
  const model = writeRandomModel({
    chatTemplate: '{{ tools and "" }}{% for m in messages %}{{ m.content }}{% endfor %}{# <tool_call> #}',
    metadata: { 'tokenizer.ggml.tokens': ['<unk>', '<s>', '</s>', ...bytes, ...words] },
  });
  server = await startTestGateway(model, { stepDelayMs: 5 });
});
afterAll(() => server?.stop());

/** Streams one answer. @param onChunk told each piece */
async function answer(onChunk: (chunk: GenerateChunk, count: number) => void = () => undefined) {
  const turn = { text: '', calls: [] as { name: string; argumentsJson: string }[], ids: [] as number[] };
  let count = 0;
  const call = server.client.generateStream(
    request({
      input: {
        $case: 'chat',
        value: ChatInput.fromPartial({
          messages: [{ role: 'user', content: 'the fox' }],
          tools: [{ name: 'weather' }],
        }),
      },
      sampling: {
        seed: 5n,
        logitBias: Object.fromEntries(FRAGMENTS.map((_, i) => [FIRST_WORD + i, COMMON])),
      },
      stop: { maxTokens: 120, ignoreEos: true },
    }),
  );
  for await (const { event } of call as AsyncIterable<GenerateStreamResponse>) {
    if (event?.$case !== 'chunk') continue;
    turn.text += event.value.text;
    turn.ids.push(...event.value.tokenIds);
    for (const { index, name, argumentsJson } of event.value.toolCalls) {
      const known = turn.calls[index];
      if (known === undefined) turn.calls[index] = { name, argumentsJson };
      else known.argumentsJson += argumentsJson;
    }
    count += 1;
    onChunk(event.value, count);
  }
  return turn;
}

it('calls and text are the same when the executor is killed while a call is written', async () => {
  const undisturbed = await answer();
  expect(undisturbed.calls.length).toBeGreaterThan(2);
  expect(undisturbed.text).not.toBe('');
  let killed = 0;
  const disturbed = await answer(({ toolCalls }) => {
    if (killed > 0 || !toolCalls.some(({ index }) => index === 1)) return;
    killed = server.gateway.executorPid() as number;
    process.kill(killed, 'SIGKILL');
  });
  expect(server.gateway.executorGenerations()).toBe(2);
  expect(disturbed).toEqual(undisturbed);
}, 60_000);
