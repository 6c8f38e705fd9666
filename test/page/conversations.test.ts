import { expect, it } from 'vitest';
import {
  type Conversation,
  DEFAULT_SETTINGS,
  type Message,
  newestLeaf,
  pathTo,
  siblingsOf,
  titleOf,
} from '../../src/page/chat/conversation.js';
import { exported, imported } from '../../src/page/chat/transfer.js';
import { sampled } from '../../src/page/server/rates.js';
import type { ModelState } from '../../src/page/server/server-store.js';

const message = (id: string, parent: string | undefined, created: number, role: Message['role'] = 'user'): Message => ({
  ...{ id, parent, created, role, conversation: 'c', saved: 0, content: `text of ${id}`, reasoning: '' },
  ...{ toolCalls: [], marks: [], state: 'complete', model: '' },
});
// a ─ b ─ c, and b' beside b with d below it.
const tree = [
  message('a', undefined, 1),
  message('b', 'a', 2, 'assistant'),
  message('c', 'b', 3),
  message('b2', 'a', 4, 'assistant'),
  message('d', 'b2', 5),
];
const messages = new Map(tree.map((one) => [one.id, one]));

it('a branch is the path to its leaf', () => {
  expect(pathTo(messages, 'd').map(({ id }) => id)).toEqual(['a', 'b2', 'd']);
  expect(siblingsOf(messages, tree[1] as Message).map(({ id }) => id)).toEqual(['b', 'b2']);
  expect(newestLeaf(messages, 'a')).toBe('d');
  expect(newestLeaf(messages, 'b')).toBe('c');
});

it('a path without end ends', () => {
  const circle = new Map([
    ['x', message('x', 'y', 1)],
    ['y', message('y', 'x', 1)],
  ]);
  expect(pathTo(circle, 'x')).toHaveLength(2);
  expect(['x', 'y']).toContain(newestLeaf(circle, 'x'));
});

const conversation: Conversation = {
  ...{ id: 'c', title: 'Foxes', created: 1, updated: 2, leaf: 'd' },
  settings: { ...DEFAULT_SETTINGS, system: 'Be brief.', sampling: { temperature: '0' } },
};

it('an import has the same tree under new ids', () => {
  const [first] = imported(exported([{ conversation, messages: tree }]));
  const { conversation: copy, messages: copies } = first as NonNullable<typeof first>;
  const contents = (all: readonly Message[], leaf: string | undefined) =>
    pathTo(new Map(all.map((one) => [one.id, one])), leaf).map(({ content }) => content);
  expect(copy).toMatchObject({ title: 'Foxes', settings: { system: 'Be brief.', sampling: { temperature: '0' } } });
  expect(copy.id).not.toBe('c');
  expect(contents(copies, copy.leaf)).toEqual(contents(tree, 'd'));
  expect(copies.every(({ id, conversation: owner }) => !messages.has(id) && owner === copy.id)).toBe(true);
});

it.each(['', '[]', '{"format":"other"}', '{"format":"rocmforge-conversations","version":1,"conversations":[{}]}'])(
  'a file that is no export is refused: %s',
  (text) => {
    expect(() => imported(text)).toThrow();
  },
);

it('an import takes only values of the right type', () => {
  const hostile = {
    ...message('a', undefined, 1),
    content: { html: '<b>' },
    stats: { tokens: '<b>' },
    marks: [{}],
    extra: 1,
  };
  const text = exported([{ conversation, messages: [hostile as unknown as Message] }]);
  const [first] = imported(text);
  expect(first?.messages[0]).toMatchObject({ content: '', stats: undefined, marks: [{ part: 'content', at: 0 }] });
  expect(first?.messages[0]).not.toHaveProperty('extra');
});

it('a title is one line', () => {
  expect(titleOf('  a\nb  ')).toBe('a b');
  expect(titleOf('x'.repeat(100))).toHaveLength(60);
  expect(titleOf(' ')).toBe('New chat');
});

const state = (change: Partial<ModelState>) => ({
  uptime_seconds: 1,
  models: [
    {
      ...{ name: 'demo', state: 'loaded', replicas: [], generated_tokens: 0, prompt_tokens: 0, recoveries: 0 },
      ...{ recovery_seconds: 0, ...change },
    },
  ],
});

it('rates and recoveries are differences of totals', () => {
  const empty = { samples: [], recoveries: [] };
  const first = sampled(empty, state({ generated_tokens: 100 }), 1000);
  const second = sampled(first, state({ generated_tokens: 160, recoveries: 2, recovery_seconds: 0.6 }), 3000);
  expect(second.samples.map(({ tokensPerSecond }) => tokensPerSecond)).toEqual([0, 30]);
  expect(second.recoveries).toEqual([{ at: 3000, count: 2, seconds: 0.3 }]);
  const restarted = sampled(second, state({ generated_tokens: 5 }), 5000);
  expect(restarted.samples.at(-1)?.tokensPerSecond).toBe(0);
  expect(restarted.recoveries).toHaveLength(1);
});
