import { afterAll, beforeAll, expect, it } from 'vitest';
import {
  ChatInput,
  FinishReason,
  GenerateRequest,
  type GenerateResponse,
  ToolChoiceMode,
} from '../../src/shared/generated/rocmforge/v1/inference.js';
import { startTestGateway, type TestGateway } from '../support/gateway.js';
import { typed } from '../support/gguf-builder.js';
import { writeRandomModel } from '../support/random-model.js';

const MARKUP = ['[TOOL_CALLS]', '[ARGS]'];
const FIRST_MARKUP = 259;
const SEEDS = [1n, 2n, 3n, 4n, 5n, 6n];
/** As many as the model has rows for. */
const WORDS = Array.from({ length: 38 }, (_, i) => `▁word${i}`);
const PLACES = ['Rome', '東京'];

let server: TestGateway;
beforeAll(async () => {
  const bytes = Array.from({ length: 256 }, (_, i) => `<0x${i.toString(16).toUpperCase().padStart(2, '0')}>`);
  const types = [2, 3, 3, ...bytes.map(() => 6), ...MARKUP.map(() => 3), ...WORDS.map(() => 1)];
  const model = writeRandomModel({
    chatTemplate: '{{ tools and "" }}{% for m in messages %}{{ m.content }}{% endfor %}{# [TOOL_CALLS] [ARGS] #}',
    metadata: {
      'tokenizer.ggml.tokens': ['<unk>', '<s>', '</s>', ...bytes, ...MARKUP, ...WORDS],
      'tokenizer.ggml.token_type': typed.arrayOf(typed.i32, types),
    },
  });
  server = await startTestGateway(model);
});
afterAll(() => server?.stop());

function answer(seed: bigint, isDemanded: boolean): Promise<GenerateResponse> {
  const parametersJson = JSON.stringify({
    type: 'object',
    properties: { place: { enum: PLACES } },
    required: ['place'],
    additionalProperties: false,
  });
  const value = ChatInput.fromPartial({
    messages: [{ role: 'user', content: 'the fox' }],
    tools: [{ name: 'weather', parametersJson, strict: true }],
    ...(isDemanded && { toolChoice: { choice: { $case: 'mode', value: ToolChoiceMode.REQUIRED } } }),
  });
  const message = GenerateRequest.fromPartial({
    input: { $case: 'chat', value },
    // Where a call may come it is begun often, and after some the answer ends.
    sampling: { temperature: 1, seed, logitBias: isDemanded ? {} : { [FIRST_MARKUP]: 6 } },
    stop: { maxTokens: 400 },
  });
  return new Promise((resolve, reject) => {
    server.client.generate(message, (error, response) => (error ? reject(error) : resolve(response)));
  });
}

it('calls whose markup is special tokens come where they must, and are read', async () => {
  const responses = await Promise.all(SEEDS.map((seed) => answer(seed, true)));
  for (const { completions } of responses) {
    const { text, toolCalls, finishReason } = completions[0]!;
    expect({ text, finishReason }).toEqual({ text: '', finishReason: FinishReason.TOOL_CALLS });
    expect(toolCalls.length).toBeGreaterThan(0);
    for (const { name, argumentsJson } of toolCalls) {
      expect(name).toBe('weather');
      expect(PLACES).toContain((JSON.parse(argumentsJson) as { place: string }).place);
    }
  }
});

it('calls of a strict function that the model begins where it likes are of its schema', async () => {
  const responses = await Promise.all(SEEDS.map((seed) => answer(seed, false)));
  const called = responses.map(({ completions }) => completions[0]!).filter(({ toolCalls }) => toolCalls.length > 0);
  expect(called.length).toBeGreaterThan(SEEDS.length / 2);
  // It spoke first.
  expect(called.some(({ text }) => text !== '')).toBe(true);
  const ended = called.filter((each) => each.finishReason !== FinishReason.LENGTH);
  expect(ended.length).toBeGreaterThan(0);
  for (const { toolCalls, finishReason } of ended) {
    expect(finishReason).toBe(FinishReason.TOOL_CALLS);
    for (const { name, argumentsJson } of toolCalls) {
      expect(name).toBe('weather');
      expect(PLACES).toContain((JSON.parse(argumentsJson) as { place: string }).place);
    }
  }
});
