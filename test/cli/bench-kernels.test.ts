import { expect, it } from 'vitest';
import { benchKernels, formatKernelPairs } from '../../src/cli/bench/kernel-bench.js';
import { openDevice } from '../../src/executor/load/open-device.js';
import { kernelsFolder } from '../kernels/support/targets.js';
import { isFull } from '../support/run-size.js';

it('bench kernels times each fused kernel and the plain ones in its place', async () => {
  const device = openDevice({ kind: 'host', threads: 1, kernels: kernelsFolder });
  const before = device.usedBytes;
  const pairs = await benchKernels(device, 3);
  expect(pairs.map(({ fused, twin }) => [fused, twin])).toEqual([
    // Each has a kernel that nothing launches on the host, built for the full tier alone.
    ...(isFull
      ? [
          ['rms_norm_residual', 'residual_add + rms_norm'],
          ['rms_norm_quantize', 'rms_norm + quantize_q8'],
        ]
      : []),
    ['rope_kv_append_f16', 'rope + kv_append_f16'],
    [
      'rope_kv_append_f16 + attention_rows_f16_d128',
      'rope + kv_append_f16 + qkt_matmul_paged_f16 + scale_f32 + mask_f32 + softmax_f32 + weighted_matmul_paged_f16',
    ],
  ]);
  for (const { fusedUs, twinUs } of pairs) {
    expect(fusedUs).toBeGreaterThan(0);
    expect(twinUs).toBeGreaterThan(0);
  }
  expect(formatKernelPairs(pairs)).toMatch(/^attention over 1024 tokens, .* 3( +\d+\.\d+){6}$/m);
  expect(device.usedBytes).toBe(before);
});
