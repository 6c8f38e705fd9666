import { RandomWeights } from '../../src/cli/synth/random-weights.js';
import type { BlockType } from '../../src/executor/kernels/index.js';
import { readBlocks } from '../kernels/reference/blocks.js';
import type { GgufBuilder } from './gguf-builder.js';
import { Random } from './random.js';
import { randomModel } from './random-model.js';

/** A llama whose matrices are random blocks, and one whose matrices are the numbers that these stand for, in a float type. */
export function quantizedTwins(
  type: BlockType,
  seed: number,
  plainType: 'F32' | 'F16',
  encode: (values: Float32Array) => Uint8Array,
): readonly [quantized: GgufBuilder, plain: GgufBuilder] {
  const [quantized, plain] = [randomModel({ hidden: 256 }), randomModel({ hidden: 256 })];
  const random = new Random(seed);
  const weights = new RandomWeights((bytes) => {
    for (let i = 0; i < bytes.length; i++) bytes[i] = random.below(256);
  });
  const name = type.toUpperCase() as Uppercase<BlockType>;
  for (const tensor of quantized.read().tensors.values()) {
    if (tensor.dims.length !== 2) continue;
    const data = Uint8Array.from(Buffer.concat([...weights.bytes(name, tensor.dims)]));
    const { products, minimums } = readBlocks(type, data);
    const values = Float32Array.from(products, (product, i) => product - minimums[i]!);
    quantized.retype(tensor.name, name, data);
    plain.retype(tensor.name, plainType, encode(values));
  }
  return [quantized, plain];
}
