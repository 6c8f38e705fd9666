import { RocmForgeError } from '../../shared/errors.js';
import type { ConstrainedAnswer, MaskSource } from './constrained-answer.js';
import { fieldOf } from './constraint-field.js';
import type { MaskJob, MaskResult, MaskVocabulary } from './mask-addon.js';
import type { MaskTime } from './mask-time.js';
import { MaskTurns } from './mask-turns.js';
import type { SlowMasks } from './slow-masks.js';

/** Jobs that go to a thread together: their way there and back costs as much as some masks. */
const BATCH = 8;

/** Answers that wait for masks, and threads that compute them. */
interface Lane {
  readonly turns: MaskTurns<ConstrainedAnswer>;
  readonly threads: number;
  readonly batch: number;
  running: number;
}

/**
 * Has masks computed by threads of the pool, by turns of the clients whose answers they are for. Answers whose masks are slow have a
 * thread of their own, so that those of others do not wait behind them.
 */
export class MaskQueue implements MaskSource {
  private readonly ordinary: Lane;
  private readonly slow: Lane = { turns: new MaskTurns(), threads: 1, batch: 1, running: 0 };
  private isScheduled = false;

  /** @param threads that compute ordinary masks at once */
  constructor(
    private readonly vocabulary: MaskVocabulary,
    private readonly maskTime: MaskTime,
    private readonly slowMasks: SlowMasks,
    threads: number,
  ) {
    this.ordinary = { turns: new MaskTurns(), threads, batch: BATCH, running: 0 };
  }

  add(answer: ConstrainedAnswer): void {
    const { turns } = this.isSlow(answer) ? this.slow : this.ordinary;
    turns.add(answer.client, answer);
    if (this.isScheduled) return;
    // Decisions of a step about several answers go together, and their drafts are known then.
    this.isScheduled = true;
    queueMicrotask(() => {
      this.isScheduled = false;
      this.serve(this.ordinary);
      this.serve(this.slow);
    });
  }

  private serve(lane: Lane): void {
    while (lane.running < lane.threads) {
      const answers = this.take(lane);
      if (answers.length === 0) return;
      lane.running += 1;
      void this.run(answers).finally(() => {
        lane.running -= 1;
        this.serve(this.ordinary);
        this.serve(this.slow);
      });
    }
  }

  private take(lane: Lane): ConstrainedAnswer[] {
    const answers: ConstrainedAnswer[] = [];
    while (answers.length < lane.batch) {
      const next = lane.turns.take();
      if (next === undefined) break;
      if (next.entry.isClosed) continue;
      // Others of its form were slow while it waited.
      if (lane === this.ordinary && this.isSlow(next.entry)) this.slow.turns.add(next.client, next.entry);
      else answers.push(next.entry);
    }
    return answers;
  }

  private isSlow({ form }: ConstrainedAnswer): boolean {
    return this.slowMasks.isSlow(form);
  }

  private async run(answers: readonly ConstrainedAnswer[]): Promise<void> {
    const jobs = answers.map((answer) => answer.job());
    const results = await this.vocabulary.run(jobs);
    for (const [i, answer] of answers.entries()) this.settle(answer, jobs[i] as MaskJob, results[i] as MaskResult);
  }

  private settle(answer: ConstrainedAnswer, job: MaskJob, result: MaskResult): void {
    if (result.outcome === 'waiting') {
      answer.done(job.tokenIds);
      if (!answer.isClosed) this.add(answer);
      return;
    }
    this.slowMasks.record(answer.form, result.ms);
    for (const { turns } of [this.ordinary, this.slow]) turns.charge(answer.client, result.ms);
    answer.done();
    if (result.outcome === 'broken') answer.fail(new RocmForgeError('INTERNAL', 'the answer has left its grammar'));
    else if (result.outcome === 'exceeded') answer.fail(exceeded(answer, result.why));
    else if (this.maskTime.charge(answer.client, result.ms)) answer.fail(tooSlow(answer, result.ms));
    else answer.ready(result.mask, result.ahead);
  }
}

/** A mask that takes more than its budget: no later one would take less. */
function exceeded({ constraint }: ConstrainedAnswer, why: string): RocmForgeError {
  const field = fieldOf(constraint);
  return new RocmForgeError('CONSTRAINT_UNSUPPORTED', `${field} ${why}; make it less ambiguous`, { field });
}

function tooSlow({ constraint }: ConstrainedAnswer, ms: number): RocmForgeError {
  const field = fieldOf(constraint);
  const message = `${field} takes ${Math.ceil(ms)} ms for one token, too long for a server with other requests; make it less ambiguous`;
  return new RocmForgeError('CONSTRAINT_TOO_SLOW', message, { field });
}
