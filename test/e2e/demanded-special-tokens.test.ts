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
const HARMONY = ['<|start|>', '<|channel|>', '<|message|>', '<|constrain|>', '<|end|>', '<|call|>', '<|return|>'];
const GLM = ['<tool_call>', '</tool_call>', '<arg_key>', '</arg_key>', '<arg_value>', '</arg_value>'];
const FIRST_MARKUP = 259;
const GLMS_END = FIRST_MARKUP + GLM.indexOf('</arg_value>');
const HARMONYS_END = FIRST_MARKUP + HARMONY.indexOf('<|end|>');
const SEEDS = [1n, 2n, 3n, 4n, 5n, 6n];
/** Number of tokens that the model has rows for behind those of bytes. */
const ROWS = 40;
const PLACES = ['Rome', '東京'];

let server: TestGateway;
let harmony: TestGateway;
let glm: TestGateway;
beforeAll(async () => {
  server = await serverOf(MARKUP, '[TOOL_CALLS] [ARGS]');
  harmony = await serverOf(HARMONY, '<|channel|> <|message|>');
  glm = await serverOf(GLM, '<tool_call> <arg_key>');
});
afterAll(async () => {
  await server?.stop();
  await harmony?.stop();
  await glm?.stop();
});

/** A model of random weights whose calls are of this markup, which its template has somewhere. */
function serverOf(markup: readonly string[], mention: string): Promise<TestGateway> {
  const words = Array.from({ length: ROWS - markup.length }, (_, i) => `▁word${i}`);
  const bytes = Array.from({ length: 256 }, (_, i) => `<0x${i.toString(16).toUpperCase().padStart(2, '0')}>`);
  const types = [2, 3, 3, ...bytes.map(() => 6), ...markup.map(() => 3), ...words.map(() => 1)];
  const model = writeRandomModel({
    chatTemplate: `{{ tools and "" }}{% for m in messages %}{{ m.content }}{% endfor %}{# ${mention} #}`,
    metadata: {
      'tokenizer.ggml.tokens': ['<unk>', '<s>', '</s>', ...bytes, ...markup, ...words],
      'tokenizer.ggml.token_type': typed.arrayOf(typed.i32, types),
    },
  });
  return startTestGateway(model);
}

function answer(
  seed: bigint,
  isRequired: boolean,
  from = server,
  logitBias: Readonly<Record<number, number>> = {},
  more: Readonly<Record<string, object>> = {},
): Promise<GenerateResponse> {
  const parametersJson = JSON.stringify({
    type: 'object',
    properties: { place: { enum: PLACES }, ...more },
    required: ['place', ...Object.keys(more)],
    additionalProperties: false,
  });
  const value = ChatInput.fromPartial({
    messages: [{ role: 'user', content: 'the fox' }],
    tools: [{ name: 'weather', parametersJson, strict: true }],
    ...(isRequired && { toolChoice: { choice: { $case: 'mode', value: ToolChoiceMode.REQUIRED } } }),
  });
  const message = GenerateRequest.fromPartial({
    input: { $case: 'chat', value },
    // If a call may come it is begun often, and after some the answer ends.
    sampling: { temperature: 1, seed, logitBias: isRequired ? logitBias : { [FIRST_MARKUP]: 4 } },
    stop: { maxTokens: 400 },
  });
  return new Promise((resolve, reject) => {
    from.client.generate(message, (error, response) => (error ? reject(error) : resolve(response)));
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

it('a call of harmony comes where it must, behind reasoning or not, and ends the turn', async () => {
  // Reasoning ends soon.
  const responses = await Promise.all(SEEDS.map((seed) => answer(seed, true, harmony, { [HARMONYS_END]: 6 })));
  for (const { completions } of responses) {
    const { text, toolCalls, finishReason } = completions[0]!;
    expect({ text, finishReason }).toEqual({ text: '', finishReason: FinishReason.TOOL_CALLS });
    expect(toolCalls).toHaveLength(1);
    expect(toolCalls[0]!.name).toBe('weather');
    expect(PLACES).toContain((JSON.parse(toolCalls[0]!.argumentsJson) as { place: string }).place);
  }
  expect(responses.some(({ completions }) => completions[0]!.reasoning !== '')).toBe(true);
});

it('arguments between tags come as the schema has them, strings as they are', async () => {
  const more = { note: { type: 'string' }, hours: { type: 'array', items: { type: 'integer' }, maxItems: 3 } };
  // Strings end soon.
  const responses = await Promise.all(SEEDS.map((seed) => answer(seed, true, glm, { [GLMS_END]: 6 }, more)));
  for (const { completions } of responses) {
    const { text, toolCalls, finishReason } = completions[0]!;
    expect({ text, finishReason }).toEqual({ text: '', finishReason: FinishReason.TOOL_CALLS });
    expect(toolCalls.length).toBeGreaterThan(0);
    for (const { argumentsJson } of toolCalls) {
      const { place, note, hours } = JSON.parse(argumentsJson) as { place: string; note: unknown; hours: unknown[] };
      expect(PLACES).toContain(place);
      expect(note).toBeTypeOf('string');
      expect(hours.every(Number.isInteger)).toBe(true);
    }
  }
});
