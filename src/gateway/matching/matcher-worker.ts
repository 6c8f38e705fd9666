// A thread that compiles grammars and works out which tokens may come next. It is started by `MatcherThreads`.
import { parentPort, workerData } from 'node:worker_threads';
import type { CompiledGrammar, GrammarCompiler, GrammarMatcher } from '@mlc-ai/web-xgrammar';
import { RocmForgeError } from '../../shared/errors.js';
import { type GivenConstraint, grammarOf } from '../constraints/grammar-of.js';
import type { SpecialTokenNames } from '../constraints/special-token-names.js';
import { fieldOf } from './constraint-field.js';
import { GrammarCache, grammarMemory } from './grammar-cache.js';
import { MaskProgress } from './mask-progress.js';
import { MaskTurns } from './mask-turns.js';
import type {
  AcceptedTokens,
  MatcherJob,
  MatcherMessage,
  MatcherWorkerData,
  NextMasks,
  ThreadMask,
  ThreadMemory,
} from './matcher-messages.js';
import { WellFormed } from './well-formed.js';
import { heapBytes, xgrammar } from './xgrammar.js';

/** Masks whose bits the other side keeps. */
const MOST_MASKS = 512;
/** Milliseconds for which masks wait for those of other answers to go with them, and jobs for the thread to look at them. */
const GATHER_MS = 0.5;
/** How many tokens ahead masks are worked out, and how long before other answers' turn comes. */
const MOST_AHEAD = 7;
const AHEAD_MS = 2;

const port = parentPort as NonNullable<typeof parentPort>;
const tell = (message: MatcherMessage): void => port.postMessage(message);

/** A byte as the letter that stands for it in byte-level vocabularies (Radford et al., GPT-2, `bytes_to_unicode`). */
function letters(): string[] {
  const isPrinted = (byte: number) => (byte >= 33 && byte <= 126) || (byte >= 161 && byte !== 173);
  let others = 0;
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(isPrinted(byte) ? byte : 256 + others++));
}

/** The vocabulary as the library takes it; any bytes, which strings could not hold. */
function vocabulary({ bytes, offsets }: MatcherWorkerData): string[] {
  const letterOf = letters();
  const text = new Uint8Array(bytes);
  const starts = new Uint32Array(offsets);
  return Array.from({ length: starts.length - 1 }, (_, id) => {
    let word = '';
    for (let i = starts[id] as number; i < (starts[id + 1] as number); i++) word += letterOf[text[i] as number];
    return word;
  });
}

/** The library says why it gives up on the error stream alone. */
let lastWords = '';
console.error = (...words: unknown[]) => {
  lastWords = words.join(' ');
};

class Matchers {
  private readonly grammars: GrammarCache<CompiledGrammar>;
  private readonly matchers = new Map<number, GrammarMatcher>();
  /** Masks by a hash of their content, or what follows it where another has that; the one used last at the end. */
  private readonly masks = new Map<number, { readonly words: Int32Array; readonly mask: ThreadMask }>();
  private masksMade = 0;
  private readonly ends: ReadonlySet<number>;
  /** Their bits, by the word of a mask that they are in. */
  private readonly endWords = new Map<number, number>();
  private forgotten: number[] = [];

  constructor(
    private readonly compiler: GrammarCompiler,
    endIds: readonly number[],
    private readonly names: SpecialTokenNames,
    private readonly wellFormed: WellFormed,
    vocabulary: number,
  ) {
    this.grammars = new GrammarCache(grammarMemory(vocabulary));
    this.ends = new Set(endIds);
    for (const id of endIds) this.endWords.set(id >> 5, (this.endWords.get(id >> 5) ?? 0) | (1 << (id & 31)));
  }

  get memory(): ThreadMemory {
    return { heapBytes: heapBytes(), grammarBytes: this.grammars.bytes, grammars: this.grammars.size };
  }

  async open({ id, form, client, constraint, tokenIds }: Extract<MatcherJob, { kind: 'open' }>): Promise<void> {
    lastWords = '';
    tell({ kind: 'opening' });
    try {
      const compiled = this.grammars.get(form) ?? (await this.compile(form, client, constraint));
      const started = performance.now();
      const matcher = await xgrammar().GrammarMatcher.createGrammarMatcher(compiled);
      this.matchers.set(id, matcher);
      for (const tokenId of tokenIds) {
        if (!matcher.acceptToken(tokenId)) return this.break(id);
      }
      const mask = this.maskOf(await this.next(matcher, tokenIds.at(-1)));
      tell({ kind: 'opened', id, ms: performance.now() - started, mask, heapBytes: heapBytes() });
    } catch (error) {
      const isOurs = error instanceof RocmForgeError;
      const { message } = error as Error;
      tell({
        kind: 'refused',
        id,
        reason: isOurs ? error.reason : 'INVALID_FIELD',
        message: isOurs ? message : `${fieldOf(constraint)} cannot be compiled: ${lastWords || message}`,
        metadata: isOurs ? error.metadata : { field: fieldOf(constraint) },
        isWorn: !isOurs,
      });
    }
  }

  private async compile(form: string, client: string, constraint: GivenConstraint): Promise<CompiledGrammar> {
    const before = heapBytes();
    // Given a text, the compiler parses it and never disposes of the parsed grammar.
    const parsed = await xgrammar().Grammar.fromEBNF(grammarOf(constraint, this.names));
    try {
      const compiled = await this.compiler.compileGrammar(parsed);
      const evicted = this.grammars.add(form, client, compiled, heapBytes() - before);
      tell({ kind: 'compiled', form, evicted, memory: this.memory });
      return compiled;
    } finally {
      parsed.dispose();
    }
  }

  async accept({ id, tokenIds, draftTokens }: AcceptedTokens): Promise<NextMasks | undefined> {
    const matcher = this.matchers.get(id);
    // Closed meanwhile.
    if (matcher === undefined) return undefined;
    const started = performance.now();
    if (!tokenIds.every((tokenId) => matcher.acceptToken(tokenId))) {
      this.break(id);
      return undefined;
    }
    const words = await this.next(matcher, tokenIds.at(-1));
    const mask = this.maskOf(words);
    const ahead = draftTokens === undefined ? [] : await this.ahead(matcher, words, draftTokens);
    return { id, ms: performance.now() - started, mask, ahead };
  }

  /** Tells of masks, and of those that will not be named again. */
  send(answers: readonly NextMasks[]): void {
    if (answers.length === 0) return;
    tell({ kind: 'masks', answers, forgotten: this.forgotten, heapBytes: heapBytes() });
    this.forgotten = [];
  }

  close(id: number): void {
    this.matchers.get(id)?.dispose();
    this.matchers.delete(id);
  }

  private break(id: number): void {
    this.close(id);
    tell({ kind: 'broken', id });
  }

  /** Tokens that may follow the last one. */
  private async next(matcher: GrammarMatcher, last: number | undefined): Promise<Int32Array> {
    return this.wellFormed.after(last, await matcher.getNextTokenBitmask());
  }

  /** Tokens that may follow, drafted or sure, each with the mask behind it; the matcher stays where it is. */
  private async ahead(
    matcher: GrammarMatcher,
    next: Int32Array,
    draftTokens: readonly number[],
  ): Promise<NextMasks['ahead']> {
    const until = performance.now() + AHEAD_MS;
    const ahead: NextMasks['ahead'][number][] = [];
    let words = next;
    let accepted = 0;
    let isDrafting = true;
    while (ahead.length < MOST_AHEAD && performance.now() < until) {
      const only = onlyOf(words);
      const draft: number | undefined = isDrafting ? draftTokens[ahead.length] : undefined;
      isDrafting = draft !== undefined && allows(words, draft);
      const tokenId = isDrafting ? draft : only;
      if (tokenId === undefined || this.ends.has(tokenId) || !matcher.acceptToken(tokenId)) break;
      accepted += 1;
      words = await this.next(matcher, tokenId);
      // What a text that may only end now comes to is not for its masks to say.
      if (this.onlyEnds(words)) break;
      ahead.push({ tokenId, mask: this.maskOf(words), isSure: tokenId === only });
    }
    if (accepted > 0) matcher.rollBack(accepted);
    return ahead;
  }

  private maskOf(words: Int32Array): ThreadMask {
    let content = hashOf(words);
    let known = this.masks.get(content);
    while (known !== undefined && !known.words.every((word, i) => word === words[i])) {
      content += 1;
      known = this.masks.get(content);
    }
    if (known !== undefined) {
      this.masks.delete(content);
      this.masks.set(content, known);
      return known.mask;
    }
    const mask = { key: this.masksMade++, onlyEnds: this.onlyEnds(words) };
    this.masks.set(content, { words, mask });
    const [oldest] = this.masks;
    if (this.masks.size > MOST_MASKS && oldest !== undefined) {
      this.masks.delete(oldest[0]);
      this.forgotten.push(oldest[1].mask.key);
    }
    return { ...mask, bits: new Uint8Array(words.buffer, words.byteOffset, words.byteLength) };
  }

  private onlyEnds(words: Int32Array): boolean {
    for (let i = 0; i < words.length; i++) {
      const word = words[i] as number;
      if (word !== 0 && (word & ~(this.endWords.get(i) ?? 0)) !== 0) return false;
    }
    return true;
  }
}

/** FNV-1a over whole words. */
function hashOf(words: Int32Array): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < words.length; i++) hash = Math.imul(hash ^ (words[i] as number), 0x01000193);
  return hash >>> 0;
}

const allows = (words: Int32Array, id: number): boolean => (((words[id >> 5] ?? 0) >> (id & 31)) & 1) === 1;

/** The token that alone is allowed. */
function onlyOf(words: Int32Array): number | undefined {
  const at = words.findIndex((word) => word !== 0);
  const word = words[at];
  if (word === undefined || (word & (word - 1)) !== 0) return undefined;
  for (let i = at + 1; i < words.length; i++) if (words[i] !== 0) return undefined;
  return 32 * at + 31 - Math.clz32(word);
}

/** One answer's part of a job. */
type Budget = Extract<MatcherJob, { kind: 'open' | 'close' }> | ({ readonly kind: 'accept' } & AcceptedTokens);

/** Runs jobs, by turns of the clients whose answers they are for. */
class Worker {
  private readonly turns = new MaskTurns<Budget>();
  private readonly clients = new Map<number, string>();
  private isBusy = false;

  constructor(
    private readonly matchers: Matchers,
    private readonly progress: MaskProgress,
  ) {}

  take(job: MatcherJob): void {
    if (job.kind === 'accept') for (const each of job.answers) this.add({ kind: 'accept', ...each });
    else {
      if (job.kind === 'open') this.clients.set(job.id, job.client);
      this.add(job);
    }
    if (!this.isBusy) void this.work();
  }

  private add(work: Budget): void {
    const client = this.clients.get(work.id) ?? '';
    if (work.kind === 'close') {
      this.clients.delete(work.id);
      this.turns.remove(client, ({ kind, id }) => kind === 'accept' && id === work.id);
    }
    this.turns.add(client, work);
  }

  private async work(): Promise<void> {
    this.isBusy = true;
    let masks: NextMasks[] = [];
    let since = performance.now();
    for (let next = this.turns.take(); next !== undefined; next = this.turns.take()) {
      // What an answer opens with may name masks of those by their keys.
      if (next.entry.kind === 'open') {
        this.matchers.send(masks);
        masks = [];
      }
      const started = performance.now();
      const made = await this.do(next.entry);
      if (made !== undefined) masks.push(made);
      const now = performance.now();
      this.turns.charge(next.client, now - started);
      if (now - since <= GATHER_MS) continue;
      this.matchers.send(masks);
      masks = [];
      // Jobs of clients whose turn may be next are in the port.
      await new Promise((resolve) => setImmediate(resolve));
      since = performance.now();
    }
    this.matchers.send(masks);
    this.isBusy = false;
  }

  private async do(work: Budget): Promise<NextMasks | undefined> {
    if (work.kind === 'close') this.matchers.close(work.id);
    else if (work.kind === 'open') await this.matchers.open(work);
    else {
      this.progress.begin(work.id);
      const made = await this.matchers.accept(work);
      this.progress.end();
      return made;
    }
    return undefined;
  }
}

async function serve(data: MatcherWorkerData): Promise<void> {
  // Jobs wait in the port until somebody listens.
  const { TokenizerInfo, GrammarCompiler } = xgrammar();
  const words = vocabulary(data);
  const { endIds, names } = data;
  const info = await TokenizerInfo.createTokenizerInfo(words, 'byte_level', false, words.length, [...endIds]);
  const wellFormed = new WellFormed(data.bytes, data.offsets);
  const compiler = await GrammarCompiler.createGrammarCompiler(info, false);
  const matchers = new Matchers(compiler, endIds, names, wellFormed, words.length);
  const worker = new Worker(matchers, new MaskProgress(data.progress));
  port.on('message', (job: MatcherJob) => worker.take(job));
  tell({ kind: 'ready', memory: matchers.memory });
}

await serve(workerData as MatcherWorkerData);
