import { closeSync, openSync, writeSync } from 'node:fs';
import { status } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { FileByteSource } from '../../src/lib/gguf/byte-source.js';
import { readGguf } from '../../src/lib/gguf/reader.js';
import { errorInfo } from '../../src/shared/grpc/status.js';
import { generate, request, startTestGateway, type TestGateway } from '../support/gateway.js';
import { writeRandomModel } from '../support/random-model.js';

/** A token whose embedding is NaN: every position from there on is. */
const POISON = 298;

/** Overwrites one row of a tensor of a file. */
function writeRow(file: string, tensor: string, row: number, value: number): void {
  const source = new FileByteSource(file);
  const { offset, dims } = readGguf(source).tensors.get(tensor)!;
  source.close();
  const values = new Float32Array(dims[0]!).fill(value);
  const descriptor = openSync(file, 'r+');
  writeSync(descriptor, new Uint8Array(values.buffer), 0, values.byteLength, offset + row * values.byteLength);
  closeSync(descriptor);
}

describe('a model whose logits are not finite for one request', () => {
  let served: TestGateway;
  beforeAll(async () => {
    const model = writeRandomModel();
    writeRow(model, 'token_embd.weight', POISON, Number.NaN);
    served = await startTestGateway(model);
  });
  afterAll(() => served.stop());

  const ask = (tokens: number[], rest: Parameters<typeof request>[0] = {}) =>
    generate(served.client, request({ tokens, stop: { maxTokens: 24, ignoreEos: true }, ...rest }));
  const unbiased = { logitBias: { [POISON]: -1000 } };

  it('ends that request by its reason, at once, and no other', async () => {
    const alone = await ask([1, 261, 262], { sampling: { temperature: 0, ...unbiased } });
    const beside = ask([1, 261, 262], { sampling: { temperature: 0, ...unbiased } });
    for (const sampling of [{ temperature: 0 }, { temperature: 1 }, { temperature: 0.8, topP: 0.9 }]) {
      const error = await ask([1, POISON, 262], { sampling }).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ code: status.INTERNAL });
      expect(errorInfo(error as Parameters<typeof errorInfo>[0])).toMatchObject({ reason: 'NON_FINITE_LOGITS' });
    }
    expect((await beside).tokenIds).toEqual(alone.tokenIds);
    expect(served.gateway.replica.counts).toMatchObject({ nonFinite: 3, quarantined: 0 });
    const metrics = await served.gateway.metrics.registry.metrics();
    expect(metrics).toContain('rocmforge_requests_non_finite_total 3');
  });

  it('also when the prompt’s log probabilities are all that is asked for', async () => {
    const output = { logprobs: 3, promptLogprobs: 3, echo: false, includeSpecialTokens: false, promptText: false };
    await expect(ask([1, 261, POISON, 262], { output })).rejects.toMatchObject({ code: status.INTERNAL });
    expect(served.gateway.executorEpoch()).toBe(1);
  });
});
