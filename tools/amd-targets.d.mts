export interface AmdTarget {
  readonly target: string;
  readonly cards: string;
  readonly clang: number;
  readonly products: 'WMMA' | 'MFMA' | 'dot instructions';
}
export const AMD_TARGETS: readonly AmdTarget[];
