import type { GgufModel } from './reader.js';

/** True if a file has a head that makes scores of hidden states. */
export const hasHead = ({ tensors }: Pick<GgufModel, 'tensors'>): boolean =>
  tensors.has('cls.weight') || tensors.has('cls.output.weight');
