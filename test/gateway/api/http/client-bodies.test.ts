import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FieldPolicy, IgnoredFieldLog, ignoredFieldsHeader } from '../../../../src/gateway/api/http/field-policy.js';
import { parseJson, readGeneration } from '../../../../src/gateway/api/http/json-forms.js';
import type { AnswerKind } from '../../../../src/gateway/api/http/request.js';
import type { ChatInput } from '../../../../src/shared/generated/rocmforge/v1/inference.js';
import { CLIENT_BODIES } from '../../../support/client-bodies.js';
import { seed } from '../../../support/run-size.js';

const LENIENT = { verbose: false };
const STRICT = { verbose: false, strictFields: true };
const bodies = Object.entries(CLIENT_BODIES);

/** Result of reading a body: the ignored fields, or the field that it is refused for. */
function read(
  kind: AnswerKind,
  body: unknown,
  defaults: typeof LENIENT,
): { ignored?: readonly string[]; field?: string } {
  try {
    return { ignored: readGeneration(kind, parseJson(Buffer.from(JSON.stringify(body))), defaults).ignored };
  } catch (error) {
    return { field: String((error as { metadata?: { field?: string } }).metadata?.field ?? error) };
  }
}

const question = { role: 'user', content: 'q' };
const chat = (parts: object) => ({ messages: [question], ...parts });
const anthropic = (parts: object) => ({ messages: [question], max_tokens: 4, ...parts });

describe('what clients send', () => {
  it.each(bodies)('is taken: %s', (_client, [kind, body]) => {
    expect(read(kind, body, LENIENT)).toHaveProperty('ignored');
  });

  it('is taken with a field added or nulled; with --strict-fields an unknown one is refused', () => {
    const paths = bodies.flatMap(([, [kind, body]]) => objectsIn(body).map((place) => ({ kind, body, place })));
    const value = fc.constantFrom<unknown>(null, true, 0, 'x', [], {}, { a: [1] });
    const added = fc.record({ at: fc.constantFrom(...paths), name: fc.stringMatching(/^x_[a-z]{1,12}$/), value });
    let count = 0;
    fc.assert(
      fc.property(added, ({ at: { kind, body, place }, name, value }) => {
        count += 1;
        const changed = structuredClone(body);
        const nulled = nullOptional(changed);
        for (const given of [changed, nulled]) Object.assign(objectAt(given, place), { [name]: value });
        for (const given of [changed, nulled]) {
          const { ignored, field } = read(kind, given, LENIENT);
          expect(field).toBeUndefined();
          expect(ignored?.some((path) => path.endsWith(name))).toBe(value !== null);
          expect(read(kind, given, STRICT)).toHaveProperty('field');
        }
      }),
      { numRuns: 150, seed: seed(31) },
    );
    expect(2 * count).toBe(300);
  });
});

/** Fields that a request needs, or whose absence makes another one wrong. */
const NEEDED = new Set(['messages', 'prompt', 'max_tokens', 'stream', 'tools']);

/** A copy whose optional fields of its own are null. */
function nullOptional(body: object): object {
  return Object.fromEntries(Object.entries(body).map(([name, value]) => [name, NEEDED.has(name) ? value : null]));
}

type Place = readonly (string | number)[];

/** Paths of objects that a form reads field by field. */
function objectsIn(body: object): readonly Place[] {
  const { messages = [] } = body as { messages?: readonly unknown[] };
  return [[], ...messages.map((_, i) => ['messages', i])];
}

function objectAt(body: object, place: Place): object {
  return place.reduce<unknown>((value, key) => (value as Record<string | number, unknown>)[key], body) as object;
}

describe('a known field that would change the answer and cannot be honoured', () => {
  it.each<[AnswerKind, object, string]>([
    ['chat', chat({ messages: [{ role: 'user', content: [{ type: 'image_url' }] }] }), 'messages[0].content[0].type'],
    ['chat', chat({ messages: [{ ...question, images: ['x'] }] }), 'messages[0].images'],
    ['chat', chat({ modalities: ['text', 'audio'] }), 'modalities'],
    ['chat', chat({ functions: [{ name: 'f' }] }), 'functions'],
    ['chat', chat({ documents: [{ text: 'd' }] }), 'documents'],
    ['chat', chat({ bad_words: ['x'] }), 'bad_words'],
    ['chat', chat({ dry_multiplier: 0.5 }), 'dry_multiplier'],
    ['chat', chat({ repeat_penalty: 1.1, repeat_last_n: 64 }), 'repeat_last_n'],
    ['chat', chat({ lora: [{ id: 0 }] }), 'lora'],
    ['chat', chat({ max_tokens: 0 }), 'max_tokens'],
    ['completion', { prompt: 'a', suffix: 'b' }, 'suffix'],
    ['llama', { prompt: 'a', mirostat: 2 }, 'mirostat'],
    ['messages', anthropic({ n: 2 }), 'n'],
    ['messages', anthropic({ mcp_servers: [{}] }), 'mcp_servers'],
    ['messages', anthropic({ tools: [{ type: 'bash_20250124', name: 'bash' }] }), 'tools[0].type'],
  ])('is refused by name in %s: %j', (kind, body, field) => {
    expect(read(kind, body, LENIENT)).toEqual({ field });
    expect(read(kind, body, STRICT)).toEqual({ field });
  });
});

describe('ignored fields', () => {
  it('are named by their paths without indices, and none that has an effect', () => {
    const body = chat({
      messages: [
        { ...question, type: 'text', mood: 'a' },
        { ...question, mood: 'b' },
      ],
      usage: {},
    });
    expect(read('chat', { ...body, user: 'u', temperature: 0 }, LENIENT)).toEqual({
      ignored: ['messages[].mood', 'usage'],
    });
  });

  it('are bounded, and safe in a header', () => {
    const policy = new FieldPolicy(false);
    for (let i = 0; i < 100; i++) policy.ignore(`${i}-${'é'.repeat(100)}`);
    expect(policy.ignored).toHaveLength(32);
    expect(ignoredFieldsHeader(['a\r\nb: c', 'd,e', '\ud800'])).toBe('a%0D%0Ab%3A%20c, d%2Ce, %EF%BF%BD');
  });

  it('are logged once each, of a bounded number', () => {
    const logged: string[] = [];
    const log = new IgnoredFieldLog((names) => logged.push(...names));
    for (let round = 0; round < 2; round++) for (let i = 0; i < 300; i++) log.note([`f${i}`]);
    expect(logged).toEqual(Array.from({ length: 256 }, (_, i) => `f${i}`));
  });
});

describe('effort', () => {
  const variables = (kind: AnswerKind, body: object) => {
    const { input } = readGeneration(kind, body, LENIENT).messages[0]!;
    const { templateVariablesJson, reasoningTokens } = (input as { value: ChatInput }).value;
    return [JSON.parse(templateVariablesJson || '{}'), reasoningTokens];
  };
  const off = { enable_thinking: false, thinking: false };
  const on = { enable_thinking: true, thinking: true };

  it.each<[AnswerKind, object, object, number | undefined]>([
    ['chat', { reasoning_effort: 'none' }, { reasoning_effort: 'none', ...off }, undefined],
    ['chat', { reasoning_effort: 'high' }, { reasoning_effort: 'high', ...on }, undefined],
    ['chat', { reasoning: { effort: 'low' } }, { reasoning_effort: 'low', ...on }, undefined],
    [
      'chat',
      { reasoning_effort: 'low', chat_template_kwargs: { thinking: 1 } },
      { reasoning_effort: 'low', ...on, thinking: 1 },
      undefined,
    ],
    ['chat', { thinking_token_budget: 7 }, {}, 7],
    ['messages', { output_config: { effort: 'high' } }, { reasoning_effort: 'high' }, undefined],
    ['messages', { thinking: { type: 'enabled', budget_tokens: 9 } }, on, 9],
    [
      'messages',
      { thinking: { type: 'disabled' }, output_config: { effort: 'low' } },
      { reasoning_effort: 'low', ...off },
      undefined,
    ],
  ])('of %s sets the variables of templates: %j', (kind, parts, expected, budget) => {
    expect(variables(kind, kind === 'chat' ? chat(parts) : anthropic(parts))).toEqual([expected, budget]);
  });
});
