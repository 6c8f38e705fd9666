import type { ErrorReason } from '../../shared/errors.js';
import type { GivenConstraint } from '../constraints/grammar-of.js';
import type { SpecialTokenNames } from '../constraints/special-token-names.js';

/** What a thread holds. */
export interface ThreadMemory {
  /** Bytes of the engine's heap. */
  readonly heapBytes: number;
  /** Bytes of the compiled grammars that it keeps, as `GrammarCache` counts them. */
  readonly grammarBytes: number;
  readonly grammars: number;
}

/** What a thread is started with. */
export interface MatcherWorkerData {
  /** The bytes of all tokens, one after the other. */
  readonly bytes: SharedArrayBuffer;
  /** `[tokens + 1]` u32: where each begins. One of no bytes is allowed nowhere, unless it ends the text. */
  readonly offsets: SharedArrayBuffer;
  readonly endIds: readonly number[];
  /** Tokens that are no text: the bytes of a special one are its name between two of `SPECIAL_TOKEN_BYTE`. */
  readonly names: SpecialTokenNames;
  /** Shared by this thread and who watches it, see `MaskProgress`. */
  readonly progress: SharedArrayBuffer;
}

/** What a thread is told. */
export type MatcherJob =
  /** Begins the answer `id`, as far as it has come. */
  | {
      readonly kind: 'open';
      readonly id: number;
      /** The same for equal constraints, and for no others. */
      readonly form: string;
      /** Whose answer it is. */
      readonly client: string;
      readonly constraint: GivenConstraint;
      readonly tokenIds: readonly number[];
    }
  /** Answers went on, in this order. */
  | { readonly kind: 'accept'; readonly answers: readonly AcceptedTokens[] }
  | { readonly kind: 'close'; readonly id: number };

/** Tokens of an answer. */
export interface AcceptedTokens {
  readonly id: number;
  readonly tokenIds: readonly number[];
  /** Draft tokens at what follows; absent where nothing beyond the next mask is asked for. */
  readonly draftTokens: readonly number[] | undefined;
}

/** A mask of a thread's, which it may name again. */
export interface ThreadMask {
  readonly key: number;
  /** With the first naming. */
  readonly bits?: Uint8Array;
  readonly onlyEnds: boolean;
}

/** What an answer may go on with, and tokens that are drafted; see `TokenConstraint.ahead`. */
export interface NextMasks {
  readonly id: number;
  /** Milliseconds that they took. */
  readonly ms: number;
  readonly mask: ThreadMask;
  readonly ahead: readonly { readonly tokenId: number; readonly mask: ThreadMask; readonly isSure: boolean }[];
}

/** What a thread tells. */
export type MatcherMessage =
  /** It takes jobs. */
  | { readonly kind: 'ready'; readonly memory: ThreadMemory }
  /** It begins to compile, or to catch up with, the answer that it was told to open. */
  | { readonly kind: 'opening' }
  | {
      readonly kind: 'opened';
      readonly id: number;
      /** Milliseconds that it took beside the compilation. */
      readonly ms: number;
      readonly mask: ThreadMask;
      /** Bytes of the engine's heap. */
      readonly heapBytes: number;
    }
  /** A grammar was compiled, and those of some forms evicted. */
  | {
      readonly kind: 'compiled';
      readonly form: string;
      readonly evicted: readonly string[];
      readonly memory: ThreadMemory;
    }
  /** The constraint cannot be kept. */
  | {
      readonly kind: 'refused';
      readonly id: number;
      readonly reason: ErrorReason;
      readonly message: string;
      readonly metadata: Readonly<Record<string, string>>;
      /** Whether the library gave up, of which it does not recover for certain. */
      readonly isWorn: boolean;
    }
  /** An answer's tokens are none of its grammar. */
  | { readonly kind: 'broken'; readonly id: number }
  | {
      readonly kind: 'masks';
      readonly answers: readonly NextMasks[];
      /** Keys that will not be named again. */
      readonly forgotten: readonly number[];
      /** Bytes of the engine's heap. */
      readonly heapBytes: number;
    };
