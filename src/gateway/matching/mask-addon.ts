import { loadNativeAddon } from '../../shared/native-addon.js';
import type { MaskedDraftToken, TokenMask } from './token-constraint.js';

/** A grammar that is prepared for a vocabulary. */
export interface MaskGrammar {
  /** Bytes of its rules, and of what it keeps of the texts of its matchers: at most 1 MB, or its rules as written, where all are closed. */
  readonly allocatedBytes: number;
  /** Grammars of an epoch share automata, which are freed with the last of them; a later one has a higher number. Infinity: it has none at rest. */
  readonly epoch: number;
  /** Frees it once its matchers are closed; no other matcher may be made of it. */
  close(): void;
}

/** One text, as far as it has come. */
export interface GrammarMatcher {
  /** A copy that goes on by itself. */
  fork(): GrammarMatcher;
  /** Frees it; nothing may be done with it any more. */
  close(): void;
}

/** Tokens that a text goes on by, and the masks that are asked for behind them. No two jobs under way may have the same matcher. */
export interface MaskJob {
  readonly matcher: GrammarMatcher;
  readonly tokenIds: Uint32Array;
  /** Draft tokens at what follows; absent where nothing beyond the next mask is asked for. */
  readonly draftTokens: Uint32Array | undefined;
}

/**
 * Result of a job: its masks; that it has not begun, for want of time; or that its tokens leave the grammar, or take too much.
 */
export type MaskResult = {
  /** Milliseconds of a processor. */
  readonly ms: number;
} & (
  | { readonly outcome: 'ready'; readonly mask: TokenMask; readonly ahead: readonly MaskedDraftToken[] }
  | { readonly outcome: 'waiting' }
  | { readonly outcome: 'broken' }
  | { readonly outcome: 'exceeded'; readonly why: string }
);

/** A vocabulary as tries of its tokens, with what its grammars share. */
export interface MaskVocabulary {
  /** Bytes of tries, automata and masks. */
  readonly allocatedBytes: number;
  /** @param buffer see `grammarBuffer` */
  prepare(buffer: Uint8Array, grammarClass: MaskAddon['MaskGrammar']): Promise<MaskGrammar>;
  /** Does jobs in a thread of the pool for about 2 ms, one after the other. @returns a result for each */
  run(jobs: readonly MaskJob[]): Promise<readonly MaskResult[]>;
}

/** The part of the native addon that computes masks; see `native/constraints/`. */
export interface MaskAddon {
  readonly MaskGrammar: new (grammar: never) => MaskGrammar;
  readonly GrammarMatcher: new (grammar: MaskGrammar) => GrammarMatcher;
  /** `offsets`: `[tokens + 1]`, where in `bytes` each begins. A token of no bytes is allowed nowhere, unless it is an end. */
  readonly MaskVocabulary: new (
    bytes: Uint8Array,
    offsets: Uint32Array,
    endIds: Uint32Array,
  ) => MaskVocabulary;
}

/** @throws RocmForgeError `KERNELS_INVALID` where the addon does not load */
export const maskAddon = (): MaskAddon => loadNativeAddon<MaskAddon>();
