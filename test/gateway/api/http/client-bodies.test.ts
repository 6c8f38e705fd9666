import { describe, expect, it } from 'vitest';
import { FieldPolicy, IgnoredFieldLog, ignoredFieldsHeader } from '../../../../src/gateway/api/http/field-policy.js';
import { readGeneration } from '../../../../src/gateway/api/http/json-forms.js';
import type { AnswerKind } from '../../../../src/gateway/api/http/request.js';
import type { ChatInput } from '../../../../src/shared/generated/rocmforge/v1/inference.js';
import { CLIENT_BODIES } from '../../../support/client-bodies.js';
import { readBody } from '../../../support/read-body.js';

const LENIENT = { verbose: false };
const STRICT = { verbose: false, strictFields: true };
const bodies = Object.entries(CLIENT_BODIES);

const question = { role: 'user', content: 'q' };
const chat = (parts: object) => ({ messages: [question], ...parts });
const anthropic = (parts: object) => ({ messages: [question], max_tokens: 4, ...parts });

describe('what clients send', () => {
  it.each(bodies)('is taken: %s', (_client, [kind, body]) => {
    expect(readBody(kind, body, LENIENT)).toHaveProperty('ignored');
  });
});

describe('a known field that would change the answer and cannot be honoured', () => {
  it.each<[AnswerKind, object, string]>([
    ['chat', chat({ messages: [{ role: 'user', content: [{ type: 'image_url' }] }] }), 'messages[0].content[0].type'],
    ['chat', chat({ messages: [{ ...question, images: ['x'] }] }), 'messages[0].images'],
    ['chat', chat({ modalities: ['text', 'audio'] }), 'modalities'],
    ['chat', chat({ functions: [{ name: 'f' }] }), 'functions'],
    ['chat', chat({ documents: [{ text: 'd' }] }), 'documents'],
    ['chat', chat({ bad_words: ['x'] }), 'bad_words'],
    ['chat', chat({ use_beam_search: true }), 'use_beam_search'],
    ['chat', chat({ n: 2, best_of: 4 }), 'best_of'],
    ['completion', { prompt: 'a', logits_processors: ['x'] }, 'logits_processors'],
    ['llama', { prompt: 'a', image_data: [{}] }, 'image_data'],
    ['chat', chat({ dry_multiplier: 0.5 }), 'dry_multiplier'],
    ['chat', chat({ repeat_penalty: 1.1, repeat_last_n: 64 }), 'repeat_last_n'],
    ['chat', chat({ lora: [{ id: 0 }] }), 'lora'],
    ['completion', { prompt: 'a', adapter_id: 'x' }, 'adapter_id'],
    ['chat', chat({ lora_request: { lora_name: 'x' } }), 'lora_request'],
    ['chat', chat({ max_tokens: 0 }), 'max_tokens'],
    ['llama', { prompt: 'a', mirostat: 2 }, 'mirostat'],
    ['messages', anthropic({ n: 2 }), 'n'],
    ['messages', anthropic({ mcp_servers: [{}] }), 'mcp_servers'],
    ['messages', anthropic({ tools: [{ type: 'bash_20250124', name: 'bash' }] }), 'tools[0].type'],
  ])('is refused by name in %s: %j', (kind, body, field) => {
    expect(readBody(kind, body, LENIENT)).toEqual({ field });
    expect(readBody(kind, body, STRICT)).toEqual({ field });
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
    expect(readBody('chat', { ...body, user: 'u', temperature: 0 }, LENIENT).ignored).toEqual([
      ...['messages[].mood', 'usage'],
    ]);
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
