import { ArchitectureKeys } from './architecture-keys.js';
import { readTraits, type Traits } from './architecture-traits.js';
import { ARCHITECTURES, type ArchitectureName, familyOf } from './architectures.js';
import { GgufError } from './error.js';
import type { Latents } from './latents.js';
import { type ModelParameters, readModelParameters } from './model-parameters.js';
import type { GgufModel } from './reader.js';

/** The shape of a model that can run, as far as a file's header tells. */
export interface ServableModel extends ModelParameters {
  /** Which family computes it. */
  readonly family: ArchitectureName;
  readonly traits: Traits;
}

/**
 * The model's shape, and the promise that every key about it was understood. What only the tensors tell is held against
 * them by whoever records the model.
 *
 * @throws GgufError as {@link readModelParameters}; `MODEL_UNSUPPORTED` for an architecture or any other key that nothing here computes; `GGUF_INVALID` when the tensors contradict the keys
 */
export function readServableModel(file: GgufModel): ServableModel {
  const keys = new ArchitectureKeys(file);
  const family = familyOf(keys.architecture);
  if (family === undefined) {
    throw new GgufError(
      'MODEL_UNSUPPORTED',
      `architecture ${keys.architecture} is not supported; supported are ${ARCHITECTURES.join(', ')}`,
      { architecture: keys.architecture },
    );
  }
  const model = readModelParameters(file, keys);
  const traits = readTraits(family, keys, model);
  keys.refuseUnread();
  refuseOtherBlocks(file, keys, model);
  refuseOtherSides(file, keys, { ...model, traits });
  return { ...model, family, traits };
}

/**
 * A block without tensors cannot run, and tensors of a block that does not run would be passed over. Of those that only predict
 * further tokens a file has all or none; what says that they are such are their own tensors.
 */
function refuseOtherBlocks(
  file: GgufModel,
  keys: ArchitectureKeys,
  { layers, predictionLayers = 0 }: ModelParameters,
): void {
  const [blocks, predicting] = [new Set<number>(), new Set<number>()];
  for (const name of file.tensors.keys()) {
    const [, block, kind] = /^blk\.(\d+)\.([^.]+)/.exec(name) ?? [];
    if (block === undefined) continue;
    blocks.add(Number(block));
    if (kind === 'nextn') predicting.add(Number(block));
  }
  const last = blocks.size - 1;
  const followOn = [...blocks].every((block) => block <= last);
  const isWhole = blocks.size === layers + predictionLayers;
  if (!followOn || !(isWhole || blocks.size === layers)) {
    keys.fail('block_count', `is ${layers + predictionLayers}, but the file has tensors of ${blocks.size} blocks`);
  }
  if (!isWhole) return;
  for (let block = layers; block < blocks.size; block++) {
    if (predicting.has(block)) continue;
    keys.fail('nextn_predict_layers', `is ${predictionLayers}, but block ${block} has no tensor blk.${block}.nextn.*`);
  }
}

/**
 * Sizes that no tensor has a side of: everything that is allocated follows from these, so none may be larger than the file
 * can show.
 */
function refuseOtherSides(
  file: GgufModel,
  keys: ArchitectureKeys,
  model: ModelParameters & Pick<ServableModel, 'traits'>,
): void {
  const sides = new Set<number>();
  for (const { dims } of file.tensors.values()) for (const side of dims) sides.add(side);
  const { hiddenSize, ffnSize, heads, vocabularyRows, experts } = model;
  const expected = [
    ['embedding_length', [hiddenSize], `${hiddenSize}`],
    // If every FFN has experts, files name a width that none has.
    ...(experts === undefined || experts.denseLayers > 0
      ? [['feed_forward_length', [ffnSize], `${ffnSize}`] as const]
      : []),
    ...(experts === undefined
      ? []
      : [
          ['expert_count', [experts.count], `${experts.count}`] as const,
          ['expert_feed_forward_length', [experts.ffnSize], `${experts.ffnSize}`] as const,
        ]),
    ...(model.traits.latents === undefined ? [] : latentSides(heads, model.traits.latents)),
    ...(model.traits.latents === undefined ? (model.traits.shapes ?? [model]) : []).flatMap(
      ({ kvHeads, headDim, ...layer }) => {
        const joined = (heads + 2 * kvHeads) * headDim;
        const ownKv = 'sharedWith' in layer ? [] : [[kvHeads * headDim, joined]];
        return [
          ['attention.head_count', [heads * headDim], `${heads} of ${headDim} elements`] as const,
          ...ownKv.map((sides) => ['attention.head_count_kv', sides, `${kvHeads} of ${headDim} elements`] as const),
        ];
      },
    ),
    ['vocab_size', [vocabularyRows], `${vocabularyRows}`],
  ] as const;
  for (const [key, accepted, shown] of expected) {
    if (accepted.some((side) => sides.has(side))) continue;
    keys.fail(key, `is ${shown}, but no tensor has a side of ${accepted.join(' or ')}`);
  }
}

/** Sides of the tensors of latent attention. */
const latentSides = (heads: number, { queryRank, rank, plain, rotated, valueDim }: Latents) =>
  [
    ['attention.head_count', [heads * (plain + rotated)], `${heads} of ${plain + rotated} elements`],
    ['attention.value_length_mla', [heads * valueDim], `${valueDim} of ${heads} heads`],
    ['attention.kv_lora_rank', [rank + rotated], `${rank}, beside ${rotated} rotated elements`],
    ...(queryRank === undefined ? [] : [['attention.q_lora_rank', [queryRank], `${queryRank}`] as const]),
  ] as const;
