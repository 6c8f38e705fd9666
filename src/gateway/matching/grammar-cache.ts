const MIB = 1024 * 1024;
/** Bytes by which a heap may grow for each token of the vocabulary: masks of a compiled grammar take a part of it for each state. */
const BYTES_A_TOKEN = 512;

/** What one grammar thread may keep. */
export interface GrammarMemory {
  /** Bytes of compiled grammars that a thread keeps for the next answer of the same form. */
  readonly cachedBytes: number;
  /** Compiled grammars that a thread keeps. */
  readonly cachedGrammars: number;
  /** Bytes that a thread's heap may grow by; beyond them it is replaced. */
  readonly heapGrowthBytes: number;
}

/** @param vocabulary tokens: the same grammar takes more of a larger one */
export function grammarMemory(vocabulary: number): GrammarMemory {
  const heapGrowthBytes = 80 * MIB + BYTES_A_TOKEN * vocabulary;
  return { cachedBytes: heapGrowthBytes / 2, cachedGrammars: 32, heapGrowthBytes };
}

/** A compiled grammar, of whatever engine. */
export interface Disposable {
  /** Returns its memory to the engine's heap. */
  dispose(): void;
}

interface Entry<Grammar> {
  readonly grammar: Grammar;
  /** The client whose answer had it compiled. */
  readonly client: string;
  readonly bytes: number;
}

/**
 * Compiled grammars of one thread, bounded in bytes. Over the bound it evicts from the client with the most bytes, what was used
 * longest ago first: many grammars of one client do not evict those of others.
 *
 * An engine's heap only grows, so its growth by a compilation is measured, and what is freed is used again without growth. A
 * grammar counts as its growth, and as what it took of the freed bytes: as many as make it as large as the average one.
 */
export class GrammarCache<Grammar extends Disposable> {
  /** By the form of the answers, the one used last at the end. */
  private readonly entries = new Map<string, Entry<Grammar>>();
  private held = 0;
  private freed = 0;
  private compiled = 0;
  private compiledBytes = 0;

  constructor(private readonly limits: { readonly cachedBytes: number; readonly cachedGrammars: number }) {}

  /** Bytes of all that are kept, as they are counted. */
  get bytes(): number {
    return this.held;
  }

  get size(): number {
    return this.entries.size;
  }

  /** The grammar of a form, now the one used last; undefined if it is not kept. */
  get(form: string): Grammar | undefined {
    const entry = this.entries.get(form);
    if (entry === undefined) return undefined;
    this.entries.delete(form);
    this.entries.set(form, entry);
    return entry.grammar;
  }

  /**
   * Keeps a grammar that was just compiled. It may be larger than the bound: then it is evicted by the next one.
   *
   * @param grownBytes growth of the engine's heap while it was compiled
   * @returns forms that were evicted, whose grammars are disposed of
   */
  add(form: string, client: string, grammar: Grammar, grownBytes: number): string[] {
    const average = this.compiled === 0 ? grownBytes : Math.ceil(this.compiledBytes / this.compiled);
    const bytes = Math.max(grownBytes, Math.min(average, grownBytes + this.freed));
    this.freed -= bytes - grownBytes;
    this.compiled += 1;
    this.compiledBytes += bytes;
    this.entries.set(form, { grammar, client, bytes });
    this.held += bytes;
    const evicted: string[] = [];
    while (this.entries.size > 1 && this.isOver()) evicted.push(this.evict(form));
    return evicted;
  }

  private isOver(): boolean {
    return this.held > this.limits.cachedBytes || this.entries.size > this.limits.cachedGrammars;
  }

  /** @param kept the form that just came */
  private evict(kept: string): string {
    const bytesOf = new Map<string, number>();
    for (const { client, bytes } of this.entries.values()) bytesOf.set(client, (bytesOf.get(client) ?? 0) + bytes);
    let victim: readonly [string, Entry<Grammar>] | undefined;
    for (const each of this.entries) {
      if (each[0] === kept) continue;
      // Of equal ones the first, which was used longest ago.
      const isLarger = (bytesOf.get(each[1].client) ?? 0) > (bytesOf.get(victim?.[1].client ?? '') ?? -1);
      if (victim === undefined || isLarger) victim = each;
    }
    const [form, entry] = victim as readonly [string, Entry<Grammar>];
    this.entries.delete(form);
    this.held -= entry.bytes;
    this.freed += entry.bytes;
    entry.grammar.dispose();
    return form;
  }
}
