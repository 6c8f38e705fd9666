import { describe, expect, it } from 'vitest';
import { encodeStreamResponse } from '../../../../src/gateway/api/grpc/chunk-encoding.js';
import { GenerateChunk, GenerateStreamResponse } from '../../../../src/shared/generated/rocmforge/v1/inference.js';

const plain: GenerateChunk = {
  index: 0,
  tokenIds: [],
  text: '',
  logprobs: [],
  promptLogprobs: [],
  reasoning: '',
  toolCalls: [],
};

const chunk = (requestId: string, value: Partial<GenerateChunk>): GenerateStreamResponse => ({
  requestId,
  event: { $case: 'chunk', value: { ...plain, ...value } },
});

const logprobs = [
  { tokenId: 7, logprob: -1.5, top: [{ tokenId: 8, logprob: -2 }], given: [{ tokenId: 9, logprob: -3, rank: 4 }] },
];
const complete = GenerateStreamResponse.fromPartial({
  requestId: 'r',
  event: { $case: 'complete', value: { index: 1, finishReason: 1, usage: { promptTokens: 3 }, seed: 9n } },
});

describe('a message of a stream', () => {
  it('has a chunk of no other fields than are written by hand', () => {
    expect(Object.keys(GenerateChunk.create()).sort()).toEqual(Object.keys(plain).sort());
  });
  it.each([
    ['an empty chunk', chunk('', {})],
    ['a token', chunk('8f14e45f-ceea-467f-a8d4-0d1c2f3b4a5c', { tokenIds: [128_255], text: ' fox' })],
    ['text of all lengths of characters', chunk('ä', { index: 3, tokenIds: [1, 2], text: 'aé€😀' })],
    [
      'ids of all lengths',
      chunk('r', { tokenIds: [0, 0x7f, 0x80, 0x3fff, 0x4000, 0x1f_ffff, 0x20_0000, 0xffff_ffff] }),
    ],
    ['more ids than one byte counts', chunk('r', { index: 200, tokenIds: Array.from({ length: 90 }, () => 300) })],
    ['a long text', chunk('r', { tokenIds: [5], text: 'x'.repeat(5000) })],
    ['log probabilities', chunk('r', { tokenIds: [7], text: 'x', logprobs })],
    ['reasoning', chunk('r', { tokenIds: [7], reasoning: 'So' })],
    ['calls', chunk('r', { toolCalls: [{ index: 0, id: 'a', name: 'f', argumentsJson: '' }] })],
    ['log probabilities of a prompt', chunk('r', { promptLogprobs: logprobs })],
    ['an end', complete],
    ['nothing', GenerateStreamResponse.create()],
  ])('has the bytes that the library’s encoder makes: %s', (_what, message) => {
    expect(encodeStreamResponse(message).equals(GenerateStreamResponse.encode(message).finish())).toBe(true);
  });
});
