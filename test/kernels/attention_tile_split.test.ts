import { it } from 'vitest';
import { ATTENTION_SPLIT, attentionTileSplit as contractOf, headTiles } from '../../src/executor/kernels/index.js';
import { attentionTileSplit } from './reference/attention_tile_split.js';
import { expectClose } from './support/compare.js';
import { lastAndInner, PagedStep, tileCases } from './support/paged-cases.js';
import { expectParts, UNTOUCHED } from './support/split-parts.js';
import { onEachTileTarget } from './support/targets.js';

onEachTileTarget('attention_tile_split', (target) => {
  it('attends to one split and writes none that a row does not reach', () =>
    target.check(tileCases(target.simulated ? 280 : 300), async (shape) => {
      const step = new PagedStep(shape, lastAndInner);
      const { cache, qkv, rows, scoring, heads, placement, dimensions } = step;
      const splits = Math.ceil(Math.max(...shape.lengths) / ATTENTION_SPLIT) + 1;
      const width = shape.headDim + 2;
      const contract = contractOf('f16', shape.headDim);
      const { parts } = await target.launch(
        contract,
        {
          ...{ ...placement, ...scoring, qkv, k_cache: cache.k, v_cache: cache.v, splits },
          head_tiles: headTiles(shape.group),
          parts: new Float32Array(rows.length * heads * splits * width).fill(UNTOUCHED),
        },
        dimensions,
      );
      expectParts(contract, parts as Float32Array, step, splits, (row, head, range) =>
        attentionTileSplit(step.query(row, head), cache, rows[row]!.slot, step.kvHead(head), range, scoring),
      );
    }));

  it('takes more query heads a KV head than a tile has rows', async () => {
    const shape = { type: 'f16', headDim: 64, kvHeads: 1, group: 18, lengths: [40], kind: 'normal', start: 4 } as const;
    const step = new PagedStep(shape, () => [{ slot: 0, position: 39 }]);
    const { cache, qkv, scoring, placement, dimensions } = step;
    const { parts } = await target.launch(
      contractOf('f16', 64),
      {
        ...{ ...placement, ...scoring, qkv, k_cache: cache.k, v_cache: cache.v },
        ...{ head_tiles: 2, splits: 1, parts: new Float32Array(18 * 66) },
      },
      dimensions,
    );
    for (let head = 0; head < 18; head++) {
      const part = (parts as Float32Array).subarray(head * 66, (head + 1) * 66);
      const expected = attentionTileSplit(step.query(0, head), cache, 0, 0, [0, 40], scoring);
      expectClose(
        contractOf('f16', 64),
        part.subarray(2).map((value) => value / part[1]!),
        expected,
        {},
      );
    }
  });
});
