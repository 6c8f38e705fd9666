import { TokenizerError } from './error.js';
import { TokenType, type Vocabulary } from './vocabulary.js';

/** A stretch of text still to be tokenized, or a token that was recognised in it by name. */
export type Fragment = { readonly start: number; readonly end: number } | { readonly tokenId: number };

export interface SplitOptions {
  /** True if control and unknown tokens count; user-defined tokens always do. */
  readonly parseSpecial: boolean;
  /**
   * Ascending offsets into the text that no marker (see `Vocabulary.isMarker`) may span: the text on one side is a template's, on
   * the other a user's (see `chat/injection-guard.ts`).
   */
  readonly breaks?: readonly number[] | undefined;
}

/** Limit of the characters of all names; published vocabularies have 100 Ki at most. Each is a node of the trie. */
const MOST_NAME_CHARACTERS = 1 << 20;

interface TrieNode {
  readonly next: Map<number, TrieNode>;
  id: number;
}

interface Match {
  readonly start: number;
  readonly end: number;
  readonly id: number;
}

/**
 * Finds tokens that are written out in a text. As in llama.cpp a longer name (in bytes) wins over any shorter one it
 * overlaps, wherever they stand; among equals the one further left.
 */
export class SpecialTokenSplitter {
  private readonly root: TrieNode = { next: new Map(), id: -1 };
  private readonly byteLengths = new Map<number, number>();
  /** Length in bytes of the longest name that begins with a UTF-16 unit. */
  private readonly longestByFirstUnit = new Map<number, number>();

  /**
   * @param swallowsSpaceAfter whether white space that follows the token belongs to it (the Phi-3 family)
   * @throws TokenizerError `TOKENIZER_INVALID` for names of more characters than any model's
   */
  constructor(
    private readonly vocabulary: Vocabulary,
    private readonly swallowsSpaceAfter: (id: number) => boolean = () => false,
  ) {
    let characters = 0;
    for (let id = 0; id < vocabulary.size; id++) {
      const text = vocabulary.texts[id]!;
      if (text !== '' && (vocabulary.isSpecial(id) || vocabulary.types[id] === TokenType.userDefined)) {
        characters += text.length;
        if (characters > MOST_NAME_CHARACTERS) refuseNames();
        this.add(text, id);
      }
    }
  }

  /** Splits `text` into tokens and the non-empty stretches between them, in order; offsets are UTF-16 units. */
  split(text: string, options: SplitOptions): Fragment[] {
    const fragments: Fragment[] = [];
    let rest = 0;
    for (let start = 0; start < text.length; ) {
      const longest = this.longestAt(text, start, options);
      if (longest === undefined) {
        start++;
        continue;
      }
      const matches = this.isChallenged(text, longest, options) ? this.resolveFrom(text, start, options) : [longest];
      for (const match of matches) {
        if (match.start > rest) fragments.push({ start: rest, end: match.start });
        fragments.push({ tokenId: match.id });
        rest = match.end;
      }
      if (this.swallowsSpaceAfter(matches.at(-1)!.id)) while (isAsciiSpace(text.charCodeAt(rest))) rest++;
      start = rest;
    }
    if (rest < text.length) fragments.push({ start: rest, end: text.length });
    return fragments;
  }

  private add(text: string, id: number): void {
    let node = this.root;
    for (let i = 0; i < text.length; i++) {
      const unit = text.charCodeAt(i);
      let child = node.next.get(unit);
      if (child === undefined) {
        child = { next: new Map(), id: -1 };
        node.next.set(unit, child);
      }
      node = child;
    }
    if (node.id < 0) node.id = id;
    const bytes = Buffer.byteLength(text);
    const first = text.charCodeAt(0);
    this.byteLengths.set(id, bytes);
    this.longestByFirstUnit.set(first, Math.max(bytes, this.longestByFirstUnit.get(first) ?? 0));
  }

  private longestAt(text: string, start: number, options: SplitOptions): Match | undefined {
    let longest: Match | undefined;
    this.forEachAt(text, start, options, (match) => {
      longest = match;
    });
    return longest;
  }

  /** Calls `visit` for every name that stands at `start`, shortest first. */
  private forEachAt(text: string, start: number, options: SplitOptions, visit: (match: Match) => void): void {
    let node = this.root.next.get(text.charCodeAt(start));
    for (let end = start + 1; node !== undefined; end++) {
      if (node.id >= 0 && this.isAllowed(node.id, start, end, options)) visit({ start, end, id: node.id });
      node = end < text.length ? node.next.get(text.charCodeAt(end)) : undefined;
    }
  }

  private isAllowed(id: number, start: number, end: number, options: SplitOptions): boolean {
    if (!options.parseSpecial && this.vocabulary.isSpecial(id)) return false;
    if (options.breaks === undefined || !this.vocabulary.isMarker(id)) return true;
    return firstAbove(options.breaks, start) >= end;
  }

  /** True if a longer name begins inside this one. */
  private isChallenged(text: string, match: Match, options: SplitOptions): boolean {
    const bytes = this.byteLengths.get(match.id)!;
    for (let start = match.start + 1; start < match.end; start++) {
      if ((this.longestByFirstUnit.get(text.charCodeAt(start)) ?? 0) <= bytes) continue;
      const rival = this.longestAt(text, start, options);
      if (rival !== undefined && this.byteLengths.get(rival.id)! > bytes) return true;
    }
    return false;
  }

  /** Decides among all names of one chain of overlaps that begins at `from`. */
  private resolveFrom(text: string, from: number, options: SplitOptions): Match[] {
    const candidates: Match[] = [];
    let end = from + 1;
    for (let start = from; start < end; start++) {
      this.forEachAt(text, start, options, (match) => {
        candidates.push(match);
        end = Math.max(end, match.end);
      });
    }
    const length = (match: Match) => this.byteLengths.get(match.id)!;
    candidates.sort((a, b) => length(b) - length(a) || a.start - b.start);
    const taken = new Uint8Array(end - from);
    const accepted: Match[] = [];
    for (const match of candidates) {
      // No accepted match is shorter than this one, so an overlap always covers one of this match's ends.
      if (taken[match.start - from] === 1 || taken[match.end - 1 - from] === 1) continue;
      taken.fill(1, match.start - from, match.end - from);
      accepted.push(match);
    }
    return accepted.sort((a, b) => a.start - b.start);
  }
}

function refuseNames(): never {
  const problem = `has more than ${MOST_NAME_CHARACTERS} characters in special and user-defined tokens`;
  throw new TokenizerError('TOKENIZER_INVALID', `metadata key "tokenizer.ggml.tokens" ${problem}`);
}

/** The first value above `bound` in an ascending list, or infinity. */
function firstAbove(ascending: readonly number[], bound: number): number {
  let low = 0;
  let high = ascending.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (ascending[middle]! > bound) high = middle;
    else low = middle + 1;
  }
  return ascending[low] ?? Number.POSITIVE_INFINITY;
}

function isAsciiSpace(unit: number): boolean {
  return unit === 0x20 || (unit >= 0x09 && unit <= 0x0d);
}
