import { beforeEach, expect, it } from 'vitest';
import { Rejections } from '../../../src/gateway/trust/rejections.js';
import { RocmForgeError } from '../../../src/shared/errors.js';

let now: number;
let lines: object[];
let rejections: Rejections;
let counted: string[];
beforeEach(() => {
  now = 0;
  lines = [];
  counted = [];
  rejections = new Rejections(
    { info: (fields: object) => void lines.push(fields) } as never,
    { requestRejected: (api, reason) => void counted.push(`${api} ${reason}`) },
    () => now,
  );
});
const error = new RocmForgeError('INVALID_FIELD', 'top_p is 7; use 0 to 1', { field: 'sampling.top_p' });

it('has both numbers of a prompt that is too long', () => {
  const metadata = { field: 'text', prompt_tokens: '9000', context_length: '1024' };
  rejections.note('http', '203.0.113.7', new RocmForgeError('PROMPT_TOO_LONG', 'the text of a request', metadata));
  expect(lines).toMatchObject([{ reason: 'PROMPT_TOO_LONG', field: 'text', promptTokens: 9000, contextLength: 1024 }]);
  expect(JSON.stringify(lines)).not.toContain('the text of a request');
});

it('a line has the reason, the field or limit, and the client', () => {
  rejections.note('http', 'token:alice', error);
  rejections.note('grpc', '203.0.113.7', new RocmForgeError('RATE_LIMITED', 'wait', { limit: 'streams' }));
  expect(lines).toEqual([
    { api: 'http', reason: 'INVALID_FIELD', client: 'token:alice', field: 'sampling.top_p' },
    { api: 'grpc', reason: 'RATE_LIMITED', client: '203.0.113.7', limit: 'streams' },
  ]);
  expect(counted).toEqual(['http INVALID_FIELD', 'grpc RATE_LIMITED']);
});

it('of a thousand at once twenty have a line, then one a second, with how many had none', () => {
  for (let i = 0; i < 1000; i++) rejections.note('grpc', 'mallory', error);
  expect(lines).toHaveLength(20);
  expect(counted).toHaveLength(1000);
  now += 1000;
  rejections.note('grpc', 'alice', error);
  rejections.note('grpc', 'mallory', error);
  expect(lines.slice(20)).toMatchObject([{ client: 'alice', suppressed: 980 }]);
  now += 5000;
  rejections.note('grpc', 'bob', error);
  rejections.note('grpc', 'bob', error);
  expect(lines.slice(21)).toEqual([
    expect.objectContaining({ client: 'bob', suppressed: 1 }),
    expect.not.objectContaining({ suppressed: expect.anything() }),
  ]);
});

it('what a client chooses is short, and a field that it invents tells nothing but a name’s shape', () => {
  const field = `my secret prompt: ${'x'.repeat(5000)}\u001b[2J`;
  rejections.note('http', `jwt:${'s'.repeat(5000)}`, new RocmForgeError('INVALID_FIELD', 'unknown', { field }));
  const text = JSON.stringify(lines);
  expect(text.length).toBeLessThan(400);
  expect(text).not.toContain('secret prompt');
  expect(text).not.toContain('\\u001b');
});
