import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { openDevice } from '../../src/executor/device/device.js';
import { loadModel } from '../../src/executor/model/loaded-model.js';
import { StepRunner } from '../../src/executor/step-runner.js';
import { ExecuteRequest } from '../../src/shared/generated/rocmforge/executor/v1/executor.js';

it('parity', async () => {
  const dev = openDevice({ kind: 'host' });
  const m = await loadModel(
    dev,
    {
      path: '../shared/data/models/stories260K-f32.gguf',
      kvCacheType: 'f32',
      maxContext: 512,
      maxSequences: 4,
      maxStepTokens: 64,
      kvMemoryBytes: 0,
      fingerprint: '',
    },
    () => {},
  );
  const r = new StepRunner(dev, m, 1n);
  const parity = JSON.parse(readFileSync('../shared/data/parity/stories260K-f32.json', 'utf8'));
  let id = 0n,
    worst = 0;
  const bytes = (a: number[]) => new Uint8Array(new Uint32Array(a).buffer);
  for (const c of parity.cases) {
    const ids: number[] = c.prompt_tokens;
    const got: number[] = [];
    const nb = Math.ceil((ids.length + 64) / 16);
    for (let i = 0; i < 64; i++) {
      const req = ExecuteRequest.fromPartial({
        stepId: id++,
        generation: 1n,
        opens: i
          ? []
          : [
              {
                slot: 0,
                tokenIds: bytes(ids),
                promptTokens: ids.length,
                blockIds: bytes(Array.from({ length: nb }, (_, k) => 1 + k)),
                sampling: { temperature: 0, topP: 1, logprobs: true, topLogprobs: 5 },
              },
            ],
        closes: i === 0 && id > 1n ? [0] : [],
        slices: [
          i
            ? { slot: 0, position: ids.length + i - 1, count: 1, sample: true }
            : { slot: 0, position: 0, count: ids.length, sample: true },
        ],
      });
      const o = (await r.submit(req)).outputs[0]!;
      got.push(o.tokenId);
      c.top[i]?.forEach(([t, lp]: [number, number], k: number) => {
        expect(o.topIds[k]).toBe(t);
        worst = Math.max(worst, Math.abs(lp - o.topLogprobs[k]!));
      });
    }
    expect(got).toEqual(c.tokens);
  }
  console.log('worst', worst);
});
