import { expect, it } from 'vitest';
import { SHAPES } from '../../src/cli/synth/shapes.js';
import { predictedSpeeds } from '../../src/cli/verify/predicted-speeds.js';
import { formatSpeed, type SpeedReport, speedBesidePrediction } from '../../src/cli/verify/speed-beside.js';

const host = { device: 'host', threads: 1, attention: 'fused' } as const;
const report: SpeedReport = {
  ...{ device: 'a card', target: 'gfx1100', shape: 'llama-3.1-8b', type: 'Q4_K_M', tokensPerSecond: 120, read: 8.1e11 },
  kernels: [
    { kernel: 'gate_up_normed_q4_k', launches: 32, microseconds: 2700 },
    { kernel: 'new_kernel', launches: 1, microseconds: 3 },
  ],
  predictedTargets: ['gfx1100', 'gfx942'],
};

it('prints what was measured beside what was predicted, and what share of it that is', () => {
  const predicted = {
    ...{ target: 'gfx1100', card: 'RX 7900 XTX', shape: 'llama-3.1-8b', type: 'Q4_K_M', position: 512 },
    speeds: [{ nodeUs: 3.87, tokensPerSecond: 150 }],
    kernels: { gate_up_normed_q4_k: { launches: 32, us: 2537 } },
  };
  const text = formatSpeed({ ...report, predicted });
  expect(text).toContain('measured   120.0 tokens/s; a kernel that only reads 810.0 GB/s');
  expect(text).toContain('predicted  150.0 tokens/s on RX 7900 XTX: 80 % of that is measured');
  expect(text).toMatch(/gate_up_normed_q4_k +32 +2700\.0 +2537\.0/);
  expect(text).toMatch(/new_kernel +1 +3\.0 +\n/);
});

it('says so where nothing was predicted', () => {
  expect(formatSpeed({ ...report, target: 'gfx906' })).toContain(
    'predicted  nothing for gfx906: predictions are of gfx1100, gfx942',
  );
});

it('measures a model that it writes, on the host without a prediction', async () => {
  const options = { ...host, shape: 'tiny', type: 'Q8_0' };
  const measured = await speedBesidePrediction(options);
  expect(measured.predicted).toBeUndefined();
  expect(measured.tokensPerSecond).toBeGreaterThan(0);
  expect(measured.read).toBeGreaterThan(0);
  expect(measured.kernels.length).toBeGreaterThan(5);
  expect(formatSpeed(measured)).toContain(
    `predicted  nothing for ${measured.target}: nothing of this shape and type is predicted`,
  );
});

it('refuses a shape that it does not know', async () => {
  const options = { ...host, shape: 'nothing', type: 'Q8_0' };
  await expect(speedBesidePrediction(options)).rejects.toMatchObject({ reason: 'INVALID_OPTION' });
});

it('has predictions of shapes that it can write, for each target of kernels that were counted', () => {
  const speeds = predictedSpeeds();
  expect(new Set(speeds.map(({ target }) => target))).toEqual(new Set(['gfx1100', 'gfx1201', 'gfx942']));
  for (const { shape, speeds: rates, kernels } of speeds) {
    expect(Object.keys(SHAPES)).toContain(shape);
    for (const { tokensPerSecond } of rates) expect(tokensPerSecond).toBeGreaterThan(1);
    expect(Object.values(kernels).every(({ us }) => us > 0)).toBe(true);
  }
});
