import { ALWAYS_INLINE_BYTES } from '../../shared/grpc/strict.js';

const KIB = 1024;
const MIB = 1024 * KIB;

/** The methods of the public API. */
export type Method = 'generate' | 'generateStream' | 'tokenize' | 'detokenize' | 'embed' | 'listModels' | 'getModel';

/** Bytes of a request, at most: of texts 2 MiB, more where the context is so long that token ids take more. */
const METHOD_BYTES: Readonly<Record<Method, { readonly words: string; most(contextLength: number): number }>> = {
  generate: {
    words: '2 MiB, or 8 bytes for each token of the context if that is more',
    most: (context) => Math.max(2 * MIB, 8 * context),
  },
  generateStream: {
    words: '2 MiB, or 8 bytes for each token of the context if that is more',
    most: (context) => Math.max(2 * MIB, 8 * context),
  },
  tokenize: {
    words: '2 MiB, or 8 bytes for each token of the context if that is more',
    most: (context) => Math.max(2 * MIB, 8 * context),
  },
  detokenize: {
    words: '64 KiB, or 8 bytes for each token of the context if that is more',
    most: (c) => Math.max(64 * KIB, 8 * c),
  },
  embed: {
    words: '2 MiB, or 8 bytes for each token of the context if that is more',
    most: (context) => Math.max(2 * MIB, 8 * context),
  },
  // Size that is always decoded at once, whatever the load.
  listModels: { words: '2 KiB', most: () => 2 * KIB },
  getModel: { words: '2 KiB', most: () => 2 * KIB },
};

/** Bytes of a request that are decoded at once; larger ones are decoded in a thread: cold, it takes 1 ms a kilobyte at worst. */
export const INLINE_MESSAGE_BYTES = 16 * KIB;

/** Bytes of a request of another protocol that has no prompt: so few that it is decoded at once, whatever else there is to do. */
export const CONTROL_MESSAGE_BYTES = ALWAYS_INLINE_BYTES;

/** The bytes that a request of each method may have. */
export function methodBytes(contextLength: number): Readonly<Record<Method, number>> {
  const methods = Object.entries(METHOD_BYTES) as [Method, (typeof METHOD_BYTES)[Method]][];
  return Object.fromEntries(methods.map(([name, { most }]) => [name, most(contextLength)])) as Record<Method, number>;
}

/** For `docs/api.md`: the bytes of each method in words. */
export function describeMethodBytes(): readonly { readonly method: string; readonly most: string }[] {
  return Object.entries(METHOD_BYTES).map(([name, { words }]) => ({
    method: name.charAt(0).toUpperCase() + name.slice(1),
    most: words,
  }));
}
