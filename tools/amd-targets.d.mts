export interface AmdTarget {
  /** LLVM's name. */
  readonly target: string;
  /** As their makers name them. */
  readonly cards: string;
  /** The first that compiles it, of those that are verified here: 19 or 22. */
  readonly clang: number;
  readonly products: 'WMMA' | 'MFMA' | 'dot instructions';
}

export const AMD_TARGETS: readonly AmdTarget[];
