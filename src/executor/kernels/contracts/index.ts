import type { KernelContract } from '../contract.js';
import { attentionContracts } from './attention.js';
import { elementwiseContracts } from './elementwise.js';
import { forwardContracts } from './forward.js';
import { fusedContracts } from './fused.js';
import { linearContracts } from './linear.js';
import { measureContracts } from './measure.js';
import { packedContracts } from './packed.js';
import { quantizedContracts } from './quantized.js';
import { samplingContracts } from './sampling.js';
import { tileContracts } from './tile.js';

export * from './attention.js';
export * from './elementwise.js';
export * from './forward.js';
export * from './fused.js';
export * from './linear.js';
export * from './measure.js';
export * from './packed.js';
export * from './quantized.js';
export * from './sampling.js';
export * from './tile.js';

/** Every contract: what must exist in each code object, what the documentation lists, what the tests cover. */
export const allContracts: readonly KernelContract[] = [
  ...forwardContracts,
  ...elementwiseContracts,
  ...attentionContracts,
  ...linearContracts,
  ...quantizedContracts,
  ...packedContracts,
  ...fusedContracts,
  ...measureContracts,
  ...samplingContracts,
  ...tileContracts,
];
