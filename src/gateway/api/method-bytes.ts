import { ALWAYS_INLINE_BYTES } from '../../shared/grpc/strict.js';

const KIB = 1024;
const MIB = 1024 * KIB;

/** The methods of the public API. */
export type Method = 'generate' | 'generateStream' | 'tokenize' | 'detokenize' | 'embed' | 'listModels' | 'getModel';

interface MethodBytes {
  readonly words: string;
  most(contextLength: number): number;
}

/** At least these bytes; more where the context is so long that token ids take more. */
const orContext = (words: string, least: number): MethodBytes => ({
  words: `${words}, or 8 bytes for each token of the context if that is more`,
  most: (contextLength) => Math.max(least, 8 * contextLength),
});
const PROMPT = orContext('2 MiB', 2 * MIB);
/** Size that is always decoded at once, whatever the load. */
const NAME: MethodBytes = { words: '2 KiB', most: () => 2 * KIB };

/** Bytes of a request, at most. */
const METHOD_BYTES: Readonly<Record<Method, MethodBytes>> = {
  generate: PROMPT,
  generateStream: PROMPT,
  tokenize: PROMPT,
  detokenize: orContext('64 KiB', 64 * KIB),
  embed: PROMPT,
  listModels: NAME,
  getModel: NAME,
};

/** Bytes of a request that are decoded at once; larger ones are decoded in a thread: cold, it takes 1 ms a kilobyte at worst. */
export const INLINE_MESSAGE_BYTES = 16 * KIB;

/** Bytes of a request of another protocol that has no prompt: so few that it is decoded at once, whatever else there is to do. */
export const CONTROL_MESSAGE_BYTES = ALWAYS_INLINE_BYTES;

/** The bytes that a request of each method may have. */
export function methodBytes(contextLength: number): Readonly<Record<Method, number>> {
  const methods = Object.entries(METHOD_BYTES) as [Method, MethodBytes][];
  return Object.fromEntries(methods.map(([name, { most }]) => [name, most(contextLength)])) as Record<Method, number>;
}

/** For `docs/api.md`: the bytes of each method in words. */
export function describeMethodBytes(): readonly { readonly method: string; readonly most: string }[] {
  return Object.entries(METHOD_BYTES).map(([name, { words }]) => ({
    method: name.charAt(0).toUpperCase() + name.slice(1),
    most: words,
  }));
}
