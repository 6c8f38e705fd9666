// A thread that compiles grammars and works out which tokens may come next. It is started by `MatcherThreads`.
import { createHash } from 'node:crypto';
import { parentPort, workerData } from 'node:worker_threads';
import type { CompiledGrammar, GrammarCompiler, GrammarMatcher } from '@mlc-ai/web-xgrammar';
import { RocmForgeError } from '../../shared/errors.js';
import { grammarOf } from '../constraints/grammar-of.js';
import type { SpecialTokenNames } from '../constraints/special-token-names.js';
import { fieldOf } from './constraint-field.js';
import {
  type MatcherJob,
  type MatcherMessage,
  type MatcherWorkerData,
  MOST_GRAMMARS,
  type ThreadMask,
} from './matcher-messages.js';
import { xgrammar } from './xgrammar.js';

/** Masks whose bits the other side keeps. */
const MOST_MASKS = 512;
/** How long masks wait for those of other answers to go with them. */
const GATHER_MS = 0.5;

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
  /** By the form of the answers, the one used last at the end. */
  private readonly grammars = new Map<string, CompiledGrammar>();
  private readonly matchers = new Map<number, GrammarMatcher>();
  /** Masks by their content, the one used last at the end. */
  private readonly masks = new Map<string, ThreadMask>();
  private masksMade = 0;
  private readonly endBits: readonly (readonly [word: number, bit: number])[];
  private forgotten: number[] = [];

  constructor(
    private readonly compiler: GrammarCompiler,
    endIds: readonly number[],
    private readonly names: SpecialTokenNames,
  ) {
    this.endBits = endIds.map((id) => [id >> 5, 1 << (id & 31)] as const);
  }

  async open({ id, form, constraint, tokenIds }: Extract<MatcherJob, { kind: 'open' }>): Promise<void> {
    lastWords = '';
    try {
      let compiled = this.grammars.get(form);
      if (compiled === undefined) {
        compiled = await this.compiler.compileGrammar(grammarOf(constraint, this.names));
        const [oldest] = this.grammars.keys();
        if (this.grammars.size === MOST_GRAMMARS && oldest !== undefined) {
          this.grammars.get(oldest)?.dispose();
          this.grammars.delete(oldest);
        }
      }
      // Used last.
      this.grammars.delete(form);
      this.grammars.set(form, compiled);
      const matcher = await xgrammar().GrammarMatcher.createGrammarMatcher(compiled);
      this.matchers.set(id, matcher);
      for (const tokenId of tokenIds) {
        if (!matcher.acceptToken(tokenId)) return this.break(id);
      }
      tell({ kind: 'opened', id, mask: await this.maskOf(matcher) });
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

  async accept({ tokens }: Extract<MatcherJob, { kind: 'accept' }>): Promise<void> {
    let masks: (readonly [number, ThreadMask])[] = [];
    let since = performance.now();
    const send = (): void => {
      if (masks.length > 0) tell({ kind: 'masks', masks, forgotten: this.forgotten });
      masks = [];
      this.forgotten = [];
      since = performance.now();
    };
    for (const [id, tokenId] of tokens) {
      const matcher = this.matchers.get(id);
      // Closed meanwhile.
      if (matcher === undefined) continue;
      if (!matcher.acceptToken(tokenId)) this.break(id);
      else masks.push([id, await this.maskOf(matcher)]);
      if (performance.now() - since > GATHER_MS) send();
    }
    send();
  }

  close(id: number): void {
    this.matchers.get(id)?.dispose();
    this.matchers.delete(id);
  }

  private break(id: number): void {
    this.close(id);
    tell({ kind: 'broken', id });
  }

  private async maskOf(matcher: GrammarMatcher): Promise<ThreadMask> {
    const words = await matcher.getNextTokenBitmask();
    const bits = new Uint8Array(words.buffer, words.byteOffset, words.byteLength);
    const content = createHash('sha1').update(bits).digest('base64');
    const known = this.masks.get(content);
    if (known !== undefined) {
      this.masks.delete(content);
      this.masks.set(content, known);
      return known;
    }
    const mask = { key: this.masksMade++, onlyEnds: this.onlyEnds(words) };
    this.masks.set(content, mask);
    const [oldest] = this.masks;
    if (this.masks.size > MOST_MASKS && oldest !== undefined) {
      this.masks.delete(oldest[0]);
      this.forgotten.push(oldest[1].key);
    }
    return { ...mask, bits: bits.slice() };
  }

  private onlyEnds(words: Int32Array): boolean {
    const rest = words.slice();
    for (const [word, bit] of this.endBits) rest[word] = (rest[word] as number) & ~bit;
    return rest.every((word) => word === 0);
  }
}

async function serve(data: MatcherWorkerData): Promise<void> {
  // Jobs wait in the port until somebody listens.
  const { TokenizerInfo, GrammarCompiler } = xgrammar();
  const words = vocabulary(data);
  const { endIds, names } = data;
  const info = await TokenizerInfo.createTokenizerInfo(words, 'byte_level', false, words.length, [...endIds]);
  const matchers = new Matchers(await GrammarCompiler.createGrammarCompiler(info, false), endIds, names);
  let turn = Promise.resolve();
  port.on('message', (job: MatcherJob) => {
    turn = turn.then(() => {
      if (job.kind === 'open') return matchers.open(job);
      if (job.kind === 'accept') return matchers.accept(job);
      return matchers.close(job.id);
    });
  });
  tell({ kind: 'ready' });
}

await serve(workerData as MatcherWorkerData);
