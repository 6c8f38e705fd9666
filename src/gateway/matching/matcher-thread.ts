import { Worker } from 'node:worker_threads';
import { RocmForgeError } from '../../shared/errors.js';
import type { AnswerThread, ConstrainedAnswer } from './constrained-answer.js';
import { refused, tooLarge, tooSlow } from './constraint-errors.js';
import { grammarMemory } from './grammar-cache.js';
import { HeapShares } from './heap-shares.js';
import { MaskProgress } from './mask-progress.js';
import { MASK_TIME, type MaskTime } from './mask-time.js';
import type {
  AcceptedTokens,
  MatcherJob,
  MatcherMessage,
  NextMasks,
  ThreadMask,
  ThreadMemory,
} from './matcher-messages.js';
import type { MatcherVocabulary } from './matcher-vocabulary.js';
import type { MaskedDraftToken, TokenMask } from './token-constraint.js';

/** Milliseconds between two looks at what a thread works on. */
const LOOK_MS = 250;

export interface MatcherThreadOptions {
  /** The worker's compiled file. */
  readonly file: string;
  readonly vocabulary: MatcherVocabulary;
  /** How long a grammar may take to be compiled, and an answer to catch up. */
  readonly compileLimitMs: number;
  readonly maskTime: MaskTime;
  /** How long one mask may take; default {@link MASK_TIME}'s. */
  readonly maskLimitMs?: number | undefined;
  /** Takes answers whose masks keep those of other clients waiting; absent: they stay. */
  readonly onSlow?: ((answer: ConstrainedAnswer) => void) | undefined;
  /** Whether it ends with its last answer. */
  readonly endsIdle: boolean;
  /** The thread has ended with these answers, which are to continue elsewhere; with `opening` where one was not open yet. */
  readonly onEnd: (lost: readonly ConstrainedAnswer[], opening?: Opening) => void;
}

/** An answer that is being opened, and who waits for that. */
export interface Opening {
  readonly answer: ConstrainedAnswer;
  /** How many tokens the thread was told to catch up with. */
  readonly tokens: number;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

/** One thread, and the answers that it has. */
export class MatcherThread implements AnswerThread {
  private readonly worker: Worker;
  private readonly answers = new Map<number, ConstrainedAnswer>();
  /** Those that it keeps compiled, by {@link ConstrainedAnswer.form}. */
  private readonly forms = new Set<string>();
  private readonly masks = new Map<number, TokenMask>();
  private lastId = 0;
  /** Tokens that it is to be told of. */
  private readonly outbox = new Map<ConstrainedAnswer, number[]>();
  private opening: Opening | undefined;
  private timer: NodeJS.Timeout | undefined;
  private readonly shares = new HeapShares<ConstrainedAnswer>();
  private readonly progress: MaskProgress;
  private looking: NodeJS.Timeout | undefined;
  private seen = { begun: 0, sinceMs: 0 };
  private heapAtStart = 0;
  private readonly heapGrowthBytes: number;
  memory: ThreadMemory = { heapBytes: 0, grammarBytes: 0, grammars: 0 };
  /** Grammars evicted so far. */
  evictions = 0;
  /** It takes no more answers: it ends now, or, where the library gave up or its heap has grown, with its last one. */
  isWorn = false;
  /** Whether an answer that is being opened when it ends is opened elsewhere. */
  private reopens = false;
  /** Whether its heap has grown beyond its bound. */
  isOutgrown = false;

  constructor(private readonly options: MatcherThreadOptions) {
    const progress = new SharedArrayBuffer(MaskProgress.BYTES);
    this.progress = new MaskProgress(progress);
    const { offsets } = options.vocabulary;
    this.heapGrowthBytes = grammarMemory(offsets.byteLength / Uint32Array.BYTES_PER_ELEMENT - 1).heapGrowthBytes;
    this.worker = new Worker(options.file, { workerData: { ...options.vocabulary, progress } });
    this.worker.unref();
    this.worker.on('message', (message: MatcherMessage) => this.hear(message));
    this.worker.on('error', () => undefined);
    this.worker.on('exit', () => this.lost(new RocmForgeError('INTERNAL', 'the grammar thread ended')));
  }

  get load(): number {
    return this.answers.size;
  }

  get isOpening(): boolean {
    return this.opening !== undefined;
  }

  /** The client whose answer it opens. */
  get opensFor(): string | undefined {
    return this.opening?.answer.client;
  }

  knows(form: string): boolean {
    return this.forms.has(form);
  }

  /** Takes an answer, as far as it has come. @throws as `MatcherThreads.open` */
  open(answer: ConstrainedAnswer): Promise<void> {
    this.lastId += 1;
    answer.id = this.lastId;
    answer.thread = this;
    this.answers.set(answer.id, answer);
    const opened = new Promise<void>((resolve, reject) => {
      this.opening = { answer, tokens: answer.tokenIds.length, resolve, reject };
    });
    this.post({
      kind: 'open',
      id: answer.id,
      form: answer.form,
      client: answer.client,
      constraint: answer.constraint,
      tokenIds: [...answer.tokenIds],
    });
    return opened;
  }

  accept(answer: ConstrainedAnswer, tokenId: number): void {
    if (this.outbox.size === 0) queueMicrotask(() => this.flush());
    const accepted = this.outbox.get(answer);
    if (accepted === undefined) this.outbox.set(answer, [tokenId]);
    else accepted.push(tokenId);
  }

  drop(answer: ConstrainedAnswer): void {
    this.forget(answer);
    this.outbox.delete(answer);
    this.post({ kind: 'close', id: answer.id });
    this.endIfWorn();
  }

  async end(): Promise<void> {
    await this.worker.terminate();
  }

  private flush(): void {
    const answers = [...this.outbox].map(([answer, tokenIds]): AcceptedTokens => {
      return { id: answer.id, tokenIds, draftTokens: answer.draftTokens() };
    });
    this.outbox.clear();
    this.post({ kind: 'accept', answers });
    this.looking ??= setInterval(() => this.look(), LOOK_MS).unref();
  }

  /** A mask that takes too long takes its thread along, as a grammar does. */
  private look(): void {
    const { id, begun } = this.progress.now;
    if (id === undefined) {
      this.stopLooking();
      return;
    }
    const nowMs = performance.now();
    if (begun !== this.seen.begun) this.seen = { begun, sinceMs: nowMs };
    const ms = nowMs - this.seen.sinceMs;
    if (ms <= (this.options.maskLimitMs ?? MASK_TIME.mostMs)) return;
    const answer = this.answers.get(id);
    this.endWith(answer, answer && tooSlow(answer.constraint, ms));
  }

  /** Ends the answer that holds most of the heap, if one here does. A heap does not shrink, so the thread ends, too. */
  private endLargest(): void {
    const { largest, bytes } = this.shares;
    this.endWith(largest, largest && tooLarge(largest.constraint, bytes));
  }

  /** Ends now, as does this answer; the others go on in another thread. */
  private endWith(answer: ConstrainedAnswer | undefined, error: RocmForgeError | undefined): void {
    this.stopLooking();
    this.isWorn = true;
    // It is not to blame, so that it is opened elsewhere.
    this.reopens = this.opening?.answer !== answer;
    if (answer !== undefined && error !== undefined) {
      this.forget(answer);
      answer.thread = undefined;
      answer.fail(error);
    }
    void this.worker.terminate();
  }

  private stopLooking(): void {
    clearInterval(this.looking);
    this.looking = undefined;
  }

  private post(job: MatcherJob): void {
    this.worker.postMessage(job);
  }

  /** A grammar that takes too long takes its thread along: nothing else can stop it. */
  private watch({ constraint }: ConstrainedAnswer): void {
    const { compileLimitMs } = this.options;
    this.timer = setTimeout(() => {
      const seconds = compileLimitMs / 1000;
      // Nobody else is to come to a thread that ends.
      this.isWorn = true;
      this.settle(refused(constraint, `takes more than ${seconds} s to be compiled; ask for less at once`));
      void this.worker.terminate();
    }, compileLimitMs);
  }

  private settle(error?: Error): void {
    clearTimeout(this.timer);
    const { opening } = this;
    this.opening = undefined;
    if (opening === undefined) return;
    if (error === undefined) {
      opening.resolve();
      return;
    }
    this.forget(opening.answer);
    opening.answer.thread = undefined;
    opening.reject(error);
  }

  private forget(answer: ConstrainedAnswer): void {
    this.answers.delete(answer.id);
    this.shares.leave(answer);
  }

  private hear(message: MatcherMessage): void {
    if (message.kind === 'ready') {
      this.memory = message.memory;
      this.heapAtStart = message.memory.heapBytes;
      return;
    }
    if (message.kind === 'opening') {
      if (this.opening !== undefined) this.watch(this.opening.answer);
      return;
    }
    if (message.kind === 'compiled') {
      this.compiled(message.form, message.evicted, message.memory);
      return;
    }
    if (message.kind === 'masks') {
      for (const next of message.answers) {
        const answer = this.answers.get(next.id);
        const error = answer && this.tooSlow(answer, next.ms);
        this.shares.spend(answer, next.ms);
        // Masks that it names for the first time are known to this side all the same.
        this.ready(next, error);
        if (answer !== undefined && error === undefined) this.weigh(answer, next.ms);
      }
      for (const key of message.forgotten) this.masks.delete(key);
      this.grownForAnswers(message.heapBytes);
      return;
    }
    const answer = this.answers.get(message.id);
    if (message.kind === 'broken') {
      const error = new RocmForgeError('INTERNAL', 'the answer has left its grammar');
      if (this.opening?.answer === answer) this.settle(error);
      else answer?.fail(error);
    } else if (message.kind === 'refused') {
      this.isWorn ||= message.isWorn;
      this.settle(new RocmForgeError(message.reason, message.message, message.metadata));
      this.endIfWorn();
    } else {
      const mask = this.maskOf(message.mask);
      // One that moved here may have its mask, which a later step would take for its own if told again, or may have gone on by it.
      if (answer?.mask === undefined && answer?.tokenIds.length === this.opening?.tokens) answer?.ready(mask, []);
      this.settle();
      this.shares.spend(answer, message.ms);
      this.grownForAnswers(message.heapBytes);
    }
  }

  /** The error of an answer whose masks are slow, once its client has used up its time: they keep those of others waiting. */
  private tooSlow(answer: ConstrainedAnswer, ms: number): RocmForgeError | undefined {
    return this.options.maskTime.charge(answer.client, ms) ? tooSlow(answer.constraint, ms) : undefined;
  }

  /** Gives an answer away whose masks keep those of other clients waiting, and its client's others of this form, which are as slow. */
  private weigh(answer: ConstrainedAnswer, ms: number): void {
    const { onSlow } = this.options;
    answer.slowMs += Math.max(0, ms - MASK_TIME.sharedMs);
    if (onSlow === undefined || answer.isClosed || answer.slowMs <= MASK_TIME.apartMs) return;
    const answers = [...this.answers.values()];
    if (!answers.some(({ client }) => client !== answer.client)) return;
    for (const each of answers) {
      if (each.form !== answer.form || each.client !== answer.client || each === this.opening?.answer) continue;
      this.drop(each);
      each.thread = undefined;
      onSlow(each);
    }
  }

  private ready({ id, mask, ahead }: Pick<NextMasks, 'id' | 'mask' | 'ahead'>, error?: RocmForgeError): void {
    const next = this.maskOf(mask);
    const drafted = ahead.map((each): MaskedDraftToken => ({ ...each, mask: this.maskOf(each.mask) }));
    const answer = this.answers.get(id);
    if (error === undefined) answer?.ready(next, drafted);
    else answer?.fail(error);
  }

  private maskOf({ key, bits, onlyEnds }: ThreadMask): TokenMask {
    if (bits !== undefined) this.masks.set(key, { bits, onlyEnds });
    return this.masks.get(key) as TokenMask;
  }

  private compiled(form: string, evicted: readonly string[], memory: ThreadMemory): void {
    this.forms.add(form);
    for (const each of evicted) this.forms.delete(each);
    this.evictions += evicted.length;
    this.grown(memory);
  }

  private grownForAnswers(heapBytes: number): void {
    this.shares.grow(heapBytes - this.memory.heapBytes);
    this.grown({ ...this.memory, heapBytes });
    if (this.shares.bytes > this.heapGrowthBytes) this.endLargest();
  }

  private grown(memory: ThreadMemory): void {
    this.memory = memory;
    this.isOutgrown = memory.heapBytes - this.heapAtStart > this.heapGrowthBytes;
    this.isWorn ||= this.isOutgrown;
  }

  private endIfWorn(): void {
    const isIdle = this.load === 0 && !this.isOpening;
    // A thread that ends takes no more answers.
    this.isWorn ||= isIdle && this.options.endsIdle;
    if (this.isWorn && this.load === 0) void this.worker.terminate();
  }

  private lost(error: Error): void {
    this.stopLooking();
    const opening = this.reopens ? this.opening : undefined;
    if (opening === undefined) this.settle(error);
    clearTimeout(this.timer);
    const answers = [...this.answers.values()];
    for (const answer of answers) answer.thread = undefined;
    this.options.onEnd(
      answers.filter((answer) => answer !== opening?.answer),
      opening,
    );
  }
}
