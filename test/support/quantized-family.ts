import { mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { matrixType } from '../../src/cli/synth/mixtures.js';
import { RandomWeights } from '../../src/cli/synth/random-weights.js';
import { typed } from './gguf-builder.js';
import { architectureOf, RANDOM_FAMILIES, type RandomFamilyName } from './random-families.js';
import type { RandomFamily } from './random-family.js';
import { layersOf, randomModel } from './random-model.js';
import type { RandomModelOptions } from './random-model-options.js';
import { fillRandomly } from './random-weights.js';

/** Blocks of 32 alike, and llama.cpp's mixture of blocks of 256. */
export const FAMILY_QUANTIZATIONS = ['Q8_0', 'Q4_K_M'] as const;
export type FamilyQuantization = (typeof FAMILY_QUANTIZATIONS)[number];

/**
 * A family's random model, wide enough for blocks of 256, or for as many of them as are asked for, whose matrices are random blocks; vectors stay as they are. The same
 * blocks each time.
 *
 * @returns the file's path, in a temporary folder
 */
export function writeQuantizedFamily(name: RandomFamilyName, weights: FamilyQuantization, hidden = 256): string {
  const family: RandomFamily = RANDOM_FAMILIES[name];
  const shape = { layers: layersOf(name), tied: family.isTied === true };
  const { metadata, ...experts } = everyExpert(name, family);
  const builder = randomModel({
    family: name,
    layers: shape.layers,
    hidden,
    seed: 7,
    metadata: { ...statedSizes(name, hidden), ...metadata },
    ...experts,
  });
  const random = new RandomWeights(fillRandomly);
  for (const tensor of builder.read().tensors.values()) {
    // Vectors of groups of heads have two dimensions, too. Quantizers leave AltUp and LAuReL as they are.
    if (
      tensor.dims.length < 2 ||
      /\.bias$|_norm\.weight$|\.ssm_(a|d|norm)(\.|$)|\.shortconv\.conv\.|altup_|laurel_/.test(tensor.name)
    )
      continue;
    const [, layer, kind] = /^(?:blk\.(\d+)\.)?([^.]+)/.exec(tensor.name)!;
    const type = matrixType(weights, shape, kind!, layer === undefined ? undefined : Number(layer), tensor.dims[0]!);
    if (type === tensor.type) continue;
    builder.retype(tensor.name, type, Uint8Array.from(Buffer.concat([...random.bytes(type, tensor.dims)])));
  }
  const file = path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), `${name}-${weights}.gguf`);
  writeFileSync(file, builder.build());
  return file;
}

/** Sizes that a family's file states, for a model of another width than the 64 that they are for. */
function statedSizes(name: RandomFamilyName, hidden: number): NonNullable<RandomModelOptions['metadata']> {
  const { metadata } = randomModel({ family: name, layers: layersOf(name) }).read();
  const keys = ['attention.head_count', 'attention.head_count_kv', 'feed_forward_length'].map(
    (key) => `${architectureOf(name)}.${key}`,
  );
  const ofExperts = Object.fromEntries(
    ['expert_feed_forward_length', 'expert_shared_feed_forward_length'].flatMap((kind) => {
      const key = `${architectureOf(name)}.${kind}`;
      const size = metadata.get(key);
      return typeof size === 'number' ? [[key, (size * hidden) / 64] as const] : [];
    }),
  );
  const ofLayers = Object.fromEntries(
    keys.flatMap((key) => {
      const value = metadata.get(key);
      if (typeof value !== 'object' || !('length' in value)) return [];
      const sizes = Array.from(metadata.numbers(key) ?? [], (size) => (size * hidden) / 64);
      return [[key, typed.arrayOf(typed.i32, sizes)] as const];
    }),
  );
  return { ...ofExperts, ...ofLayers };
}

/**
 * Rows are sent to every expert, by scores that are near each other: where some are chosen, rounding decides about near ties,
 * and another expert is another result. Who is chosen is held where nothing is rounded (families.test.ts).
 */
function everyExpert(name: RandomFamilyName, { experts }: RandomFamily): RandomModelOptions {
  if (experts === undefined) return {};
  const architecture = architectureOf(name);
  const metadata = {
    [`${architecture}.expert_used_count`]: experts.count,
    // Of all groups, too.
    [`${architecture}.expert_group_count`]: undefined,
    [`${architecture}.expert_group_used_count`]: undefined,
  };
  return { metadata, scaled: { ffn_gate_inp: 0.5 } };
}
