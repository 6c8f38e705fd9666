import { DraftLength, type DraftWorth } from './draft-length.js';

/** Tokens that must be the same for what followed them to be a draft token. */
const GRAM = 3;
/** Draft tokens at first. */
const FIRST = 3;

/**
 * Draft tokens at the next tokens by looking for the last ones in what came before (Saxena, "Prompt lookup decoding", 2023): texts
 * repeat names, quotes and code. How many follows how many were right.
 */
export class PromptLookupDrafter {
  /** Position behind the last occurrence of a gram, by the gram's hash. */
  private readonly followers = new Map<number, number>();
  private indexed = GRAM - 1;
  private readonly length: DraftLength;

  /**
   * @param token of a position below the known ones
   * @param worth default: any number of draft tokens pays
   */
  constructor(
    private readonly token: (position: number) => number,
    worth?: DraftWorth,
  ) {
    this.length = new DraftLength(FIRST, worth);
  }

  /** At most so many draft tokens after the first `known` tokens. */
  draftTokens(known: number, most: number): number[] {
    const count = Math.min(most, this.length.at(known));
    if (count <= 0) return [];
    const from = this.find(known);
    if (from === undefined) return [];
    const draftTokens: number[] = [];
    // If it reaches the drafted tokens, the text repeats itself, and is continued periodically.
    for (let i = from; draftTokens.length < count; i++) {
      draftTokens.push(i < known ? this.token(i) : (draftTokens[i - known] as number));
    }
    return draftTokens;
  }

  /** Number of the last draft tokens that were accepted. */
  learn(right: number, of: number): void {
    this.length.learn(right, of, this.indexed);
  }

  /** Position at which the end of the first `known` tokens was continued before. */
  private find(known: number): number | undefined {
    // The last gram itself is followed by nothing yet.
    for (; this.indexed < known - 1; this.indexed++) this.followers.set(this.hash(this.indexed), this.indexed + 1);
    if (known < GRAM) return undefined;
    const from = this.followers.get(this.hash(known - 1));
    if (from === undefined) return undefined;
    for (let i = 1; i <= GRAM; i++) if (this.token(from - i) !== this.token(known - i)) return undefined;
    return from;
  }

  /** Hash of the gram that ends at a position. */
  private hash(end: number): number {
    let hash = 0;
    for (let i = end - GRAM + 1; i <= end; i++) hash = (Math.imul(hash, 0x01000193) ^ this.token(i)) >>> 0;
    return hash;
  }
}
