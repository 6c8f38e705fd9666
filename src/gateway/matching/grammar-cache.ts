import type { MaskGrammar } from './mask-addon.js';

/** Prepared grammars that are kept, and the bytes that they may have together. */
const MOST = { grammars: 256, bytes: 16 * 1024 * 1024 } as const;
/** Bytes of a grammar in addition to its own: of objects, and its entry here. */
const BYTES_OF_ENTRY = 4096;

interface Entry {
  readonly grammar: MaskGrammar;
  /** The client whose answer it was made for. */
  readonly client: string;
}

/**
 * Prepared grammars. Over a bound it evicts from the client with the most, what was used longest ago first: many grammars of one
 * client do not evict those of others. Answers under way keep theirs.
 */
export class GrammarCache {
  /** By the form of the answers, the one used last at the end. */
  private readonly entries = new Map<string, Entry>();
  /** Evicted so far. */
  evictions = 0;

  constructor(private readonly most: { readonly grammars: number; readonly bytes: number } = MOST) {}

  /** Bytes of all that are kept; what they take changes as texts go on. */
  get bytes(): number {
    return [...this.entries.values()].reduce((sum, { grammar }) => sum + bytesOf(grammar), 0);
  }

  get size(): number {
    return this.entries.size;
  }

  /** The grammar of a form, now the one used last; undefined if it is not kept. */
  get(form: string): MaskGrammar | undefined {
    const entry = this.entries.get(form);
    if (entry === undefined) return undefined;
    this.entries.delete(form);
    this.entries.set(form, entry);
    return entry.grammar;
  }

  /** Keeps a grammar, in place of another of its form; it is closed when it is evicted. */
  add(form: string, client: string, grammar: MaskGrammar): void {
    this.entries.get(form)?.grammar.close();
    this.entries.set(form, { grammar, client });
    // One that is kept keeps the automata of its epoch.
    for (const [old, entry] of this.entries) if (entry.grammar.epoch < grammar.epoch - 1) this.remove(old);
    for (let bytes = this.bytes; this.entries.size > 1 && this.isOver(bytes); bytes = this.bytes) this.evict(form);
  }

  private isOver(bytes: number): boolean {
    return bytes > this.most.bytes || this.entries.size > this.most.grammars;
  }

  /** @param kept the form that just came */
  private evict(kept: string): void {
    const bytesOfClient = new Map<string, number>();
    for (const { client, grammar } of this.entries.values())
      bytesOfClient.set(client, (bytesOfClient.get(client) ?? 0) + bytesOf(grammar));
    let victim: string | undefined;
    let most = -1;
    for (const [form, { client }] of this.entries) {
      const bytes = bytesOfClient.get(client) ?? 0;
      // The first of equal ones, which was used longest ago.
      if (form === kept || bytes <= most) continue;
      victim = form;
      most = bytes;
    }
    if (victim !== undefined) this.remove(victim);
  }

  private remove(form: string): void {
    this.entries.get(form)?.grammar.close();
    this.entries.delete(form);
    this.evictions += 1;
  }
}

const bytesOf = ({ allocatedBytes }: MaskGrammar): number => BYTES_OF_ENTRY + allocatedBytes;
