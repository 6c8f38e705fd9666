import { expect, it } from 'vitest';
import { EngineResponse } from '../../../../src/gateway/api/protocols/engine-response.js';
import { VllmGathered } from '../../../../src/gateway/api/protocols/vllm-response.js';
import { MAX_ANSWER_TEXT_BYTES, MAX_LOGPROBS_OF_MESSAGE } from '../../../../src/gateway/request/limits.js';
import { GenerateChunk } from '../../../../src/shared/generated/rocmforge/v1/inference.js';
import { GenerateResponse, SequenceOutput } from '../../../../src/shared/generated/vllm/inference.js';

it('an answer of vllm.Inference that comes at once has as much text as one of ours', () => {
  const gathered = new VllmGathered();
  const half = SequenceOutput.create({ text: 'é'.repeat(MAX_ANSWER_TEXT_BYTES / 4) });
  gathered.take(GenerateResponse.create({ outputs: half }));
  gathered.take(GenerateResponse.create({ outputs: half }));
  const one = GenerateResponse.create({ outputs: SequenceOutput.create({ text: 'a' }) });
  expect(() => gathered.take(one)).toThrow(expect.objectContaining({ reason: 'MESSAGE_TOO_LARGE' }));
});

it('an answer of VllmEngine that comes at once has as many log probabilities as one of ours', () => {
  const top = Array.from({ length: 20 }, (_, tokenId) => ({ tokenId, logprob: -1 }));
  const chunk = GenerateChunk.create({ tokenIds: [1], logprobs: [{ tokenId: 1, logprob: -1, top }] });
  const fits = Math.floor(MAX_LOGPROBS_OF_MESSAGE / 21);
  const answerOf = (isStreamed: boolean) => new EngineResponse({ n: 1, isStreamed, stopTokenIds: [] }, () => undefined);
  const atOnce = answerOf(false);
  for (let i = 0; i < fits; i++) atOnce.chunk(chunk);
  expect(() => atOnce.chunk(chunk)).toThrow(expect.objectContaining({ reason: 'MESSAGE_TOO_LARGE' }));
  const streamed = answerOf(true);
  for (let i = 0; i <= fits; i++) streamed.chunk(chunk);
});
