import type { TensorTypeName } from '../../src/lib/gguf/tensor-types.js';
import type { BuilderValue } from './gguf-builder.js';
import type { RandomFamilyName } from './random-families.js';
import type { RandomFamily } from './random-family.js';

export interface RandomModelOptions {
  readonly type?: 'F32' | 'F16';
  readonly family?: RandomFamilyName;
  readonly contextLength?: number;
  readonly layers?: number;
  /** Hidden size of the plain families, a multiple of 64: 256 for weights in blocks of as many. */
  readonly hidden?: number;
  /** 64: attention on a GPU is in matrix tiles, and split. */
  readonly headDim?: 16 | 64;
  readonly seed?: number;
  readonly chatTemplate?: string;
  /** Rows of the vocabulary's matrices that no token has. */
  readonly paddedRows?: number;
  /** Changed metadata, by full key; `undefined` leaves the key out. */
  readonly metadata?: Readonly<Record<string, BuilderValue | undefined>>;
  /** More tensors, all zero. */
  readonly tensors?: Readonly<Record<string, { readonly type?: TensorTypeName; readonly dims: readonly number[] }>>;
  /** Files in which gate and up are one matrix: up comes first. */
  readonly swapsGateAndUp?: boolean;
  /** Sizes of latent attention, and columns of the states of state-space layers, in place of the family's. */
  readonly latents?: NonNullable<RandomFamily['latents']>;
  readonly stateColumns?: number;
  /** A block behind the layers that predicts further tokens, mostly from the next token. */
  readonly predicts?: boolean;
  /** Tensors that are multiplied by a number. */
  readonly scaled?: Readonly<Record<string, number>>;
  /** A published model's sizes in place of the family's. Its matrices get no values. */
  readonly sizes?: ModelSizes;
}

/** Sizes of a model: those of a dense FFN and the vocabulary, and what else differs from the family's random model. */
export interface ModelSizes extends RandomFamily {
  readonly ffn: number;
  readonly vocabulary: number;
}
