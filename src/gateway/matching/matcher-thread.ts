import { Worker } from 'node:worker_threads';
import { RocmForgeError } from '../../shared/errors.js';
import type { GivenConstraint } from '../constraints/grammar-of.js';
import type { AnswerThread, ConstrainedAnswer } from './constrained-answer.js';
import { fieldOf } from './constraint-field.js';
import { GRAMMAR_MEMORY } from './grammar-cache.js';
import type { MaskTime } from './mask-time.js';
import type {
  AcceptedTokens,
  MatcherJob,
  MatcherMessage,
  MatcherWorkerData,
  NextMasks,
  ThreadMask,
  ThreadMemory,
} from './matcher-messages.js';
import type { GuessedToken, TokenMask } from './token-constraint.js';

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
  private opening: { answer: ConstrainedAnswer; resolve: () => void; reject: (error: Error) => void } | undefined;
  private timer: NodeJS.Timeout | undefined;
  private heapAtStart = 0;
  memory: ThreadMemory = { heapBytes: 0, grammarBytes: 0, grammars: 0 };
  /** Grammars evicted so far. */
  evictions = 0;
  /** It takes no more answers: it ends now, or, where the library gave up or its heap has grown, with its last one. */
  isWorn = false;
  /** Whether its heap has grown beyond its bound. */
  isOutgrown = false;

  constructor(
    file: string,
    data: MatcherWorkerData,
    private readonly compileLimitMs: number,
    private readonly maskTime: MaskTime,
    private readonly onEnd: (lost: readonly ConstrainedAnswer[]) => void,
  ) {
    this.worker = new Worker(file, { workerData: data });
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
      this.opening = { answer, resolve, reject };
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
    this.answers.delete(answer.id);
    this.post({ kind: 'close', id: answer.id });
    this.endIfWorn();
  }

  async end(): Promise<void> {
    await this.worker.terminate();
  }

  private flush(): void {
    const answers = [...this.outbox].map(([answer, tokenIds]): AcceptedTokens => {
      return { id: answer.id, tokenIds, guesses: answer.guesses() };
    });
    this.outbox.clear();
    this.post({ kind: 'accept', answers });
  }

  private post(job: MatcherJob): void {
    this.worker.postMessage(job);
  }

  /** A grammar that takes too long takes its thread along: nothing else can stop it. */
  private watch({ constraint }: ConstrainedAnswer): void {
    this.timer = setTimeout(() => {
      const seconds = this.compileLimitMs / 1000;
      // Nobody else is to come to a thread that ends.
      this.isWorn = true;
      this.settle(refused(constraint, `takes more than ${seconds} s to be compiled; ask for less at once`));
      void this.worker.terminate();
    }, this.compileLimitMs);
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
    this.answers.delete(opening.answer.id);
    opening.answer.thread = undefined;
    opening.reject(error);
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
        const error = this.tooSlow(next);
        // Masks that it names for the first time are known to this side all the same.
        this.ready(next, error);
      }
      for (const key of message.forgotten) this.masks.delete(key);
      this.grown({ ...this.memory, heapBytes: message.heapBytes });
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
      this.ready({ ...message, ahead: [] });
      this.settle();
    }
  }

  /** The error of an answer whose masks are slow, once its client has used up its time: they keep those of others waiting. */
  private tooSlow({ id, ms }: NextMasks): RocmForgeError | undefined {
    const answer = this.answers.get(id);
    if (answer === undefined || !this.maskTime.charge(answer.client, ms)) return undefined;
    const field = fieldOf(answer.constraint);
    const message = `${field} takes ${Math.ceil(ms)} ms for one token, too long beside other requests; make it less ambiguous`;
    return new RocmForgeError('CONSTRAINT_TOO_SLOW', message, { field });
  }

  private ready({ id, mask, ahead }: Pick<NextMasks, 'id' | 'mask' | 'ahead'>, error?: RocmForgeError): void {
    const next = this.maskOf(mask);
    const guessed = ahead.map((each): GuessedToken => ({ ...each, mask: this.maskOf(each.mask) }));
    const answer = this.answers.get(id);
    if (error === undefined) answer?.ready(next, guessed);
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

  private grown(memory: ThreadMemory): void {
    this.memory = memory;
    this.isOutgrown = memory.heapBytes - this.heapAtStart > GRAMMAR_MEMORY.heapGrowthBytes;
    this.isWorn ||= this.isOutgrown;
  }

  private endIfWorn(): void {
    if (this.isWorn && this.load === 0) void this.worker.terminate();
  }

  private lost(error: Error): void {
    this.settle(error);
    const answers = [...this.answers.values()];
    for (const answer of answers) answer.thread = undefined;
    this.onEnd(answers);
  }
}

function refused(constraint: GivenConstraint, why: string): RocmForgeError {
  const field = fieldOf(constraint);
  return new RocmForgeError('INVALID_FIELD', `${field} ${why}`, { field });
}
