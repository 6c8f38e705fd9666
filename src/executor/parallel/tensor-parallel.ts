import { RocmForgeError } from '../../shared/errors.js';
import type { NativeStep } from '../device/addon.js';
import { OUTPUT_WORDS } from '../kernels/index.js';
import { PATIENCE_MS } from '../layers/all-reduce.js';
import type { PlanParts } from '../layers/recorded-model.js';
import { COUNT_DRAWS } from '../model/step-counts.js';
import { HEADER_ENDED, OUTPUT_HEADER } from '../model/step-tables.js';
import {
  bytesOf,
  firstFailure,
  type ModelDevices,
  type Pass,
  type PassEnd,
  reserveSteps,
  type SamplingPass,
  type Stage,
  slotWrites,
} from './model-devices.js';
import { headerOf } from './pipeline.js';

/** Passes from one that was ended on which a rank does not wait for others in: see `kernels/forge/ranks.h`. */
const PASSES_ENDED = 64;

/**
 * The devices of a tensor split: each computes a shard of every layer for all rows, and they meet where shards are added up.
 * All sample the same rows of the same logits, and what they come to is compared.
 */
export class Ranks implements ModelDevices {
  readonly depth = 1;
  /** The number of the pass that was queued last; all devices run passes in the order of their numbers. */
  private pass = 0;

  constructor(readonly stages: readonly Stage[]) {
    for (const { device, forward } of stages) reserveSteps(device, forward);
  }

  get last(): Stage {
    return this.stages.at(-1) as Stage;
  }

  async run({
    step,
    counts,
    recurring,
    input,
    answer,
    answerWords,
    isSampled,
    isFirst,
    isLast,
  }: Pass): Promise<PassEnd> {
    this.pass = (this.pass + 1) | 0;
    const number = this.pass;
    const { offsets } = this.last.forward.tables;
    input[offsets.pass] = number;
    // The result of an ended pass arrives with any answer.
    const words = Math.max(OUTPUT_HEADER, answerWords);
    const answers = this.answers(answer, words);
    const running = this.stages.map(({ device, forward, plan, planParts }, i) =>
      device.native.run({
        ...{ step, counts, recurring, input: new Uint8Array(input.buffer, input.byteOffset, input.byteLength) },
        plan: isSampled ? plan : (planParts as PlanParts).forward,
        deviceInput: forward.tables.device.address,
        deviceOutput: forward.tables.answer.address,
        output: bytesOf(answers[i] as Int32Array, words),
        begins: i === 0 && isFirst,
        ends: this.isLast(i) && isLast,
      }),
    );
    this.endIfOneFails(running, number);
    const stageUs = await firstFailure(running);
    for (const [rank, own] of answers.entries()) this.checkMet(rank, own[HEADER_ENDED] as number, number);
    if (isSampled && answerWords > 0) this.compare(answers, answerWords, counts);
    for (const [rank, own] of answers.entries()) {
      if (!this.isLast(rank)) answer.set(own.subarray(0, OUTPUT_HEADER), headerOf({ answer }, rank));
    }
    // They run at the same time.
    return { stageUs: [Math.max(...stageUs)] };
  }

  async sample({ masks, answer, answerWords, ...step }: SamplingPass): Promise<number> {
    const answers = this.answers(answer, answerWords);
    const running = this.stages.map(({ device, forward, planParts }, i) => {
      const own: NativeStep = {
        ...{ step: step.step, counts: step.counts, recurring: false, joins: true, begins: false },
        plan: (planParts as PlanParts).sampling,
        input: masks,
        deviceInput: forward.masks.device.address,
        output: bytesOf(answers[i] as Int32Array, answerWords),
        deviceOutput: forward.tables.answer.address,
        ends: this.isLast(i),
      };
      return device.native.run(own);
    });
    const us = await firstFailure(running);
    if (answerWords > 0) this.compare(answers, answerWords, step.counts);
    return Math.max(...us);
  }

  async write(input: Int32Array, counts: Int32Array): Promise<number> {
    const running = this.stages.map((stage) => stage.device.native.run(slotWrites(stage, input, counts)));
    return Math.max(...(await firstFailure(running)));
  }

  private isLast(rank: number): boolean {
    return rank === this.stages.length - 1;
  }

  /** Destinations of the ranks' answers: the last one's is the step's. */
  private answers(answer: Int32Array, words: number): readonly Int32Array[] {
    return this.stages.map((_, rank) => (this.isLast(rank) ? answer : new Int32Array(words)));
  }

  /** Nobody waits for a rank that has failed. */
  private endIfOneFails(running: readonly Promise<number>[], number: number): void {
    for (const one of running) {
      one.catch(() => {
        for (const { device, forward } of this.stages) {
          try {
            device.native.signal(forward.tables.ended.address, number);
          } catch {
            // A device that cannot be told is lost, and its own step says so.
          }
        }
      });
    }
  }

  /** @throws RocmForgeError `INTERNAL` where a rank did not wait for the others to come */
  private checkMet(rank: number, ended: number, number: number): void {
    if ((ended - number) >>> 0 >= PASSES_ENDED) return;
    throw new RocmForgeError(
      'INTERNAL',
      `device ${rank}: another one of a tensor split did not come to their barrier for ${PATIENCE_MS / 1000} s`,
    );
  }

  /** @throws RocmForgeError `INTERNAL` where ranks have sampled something else */
  private compare(answers: readonly Int32Array[], words: number, counts: Int32Array): void {
    const rows = Math.min(counts[COUNT_DRAWS] as number, (words - OUTPUT_HEADER) / OUTPUT_WORDS);
    const expected = answers.at(-1) as Int32Array;
    for (const [rank, own] of answers.entries()) {
      for (let row = 0, at = OUTPUT_HEADER; row < rows; row++, at += OUTPUT_WORDS) {
        if (own[at] === expected[at]) continue;
        const ids = `token ${own[at]} on device ${rank}, ${expected[at]} on device ${answers.length - 1}`;
        throw new RocmForgeError('INTERNAL', `devices of a tensor split have sampled ${ids}: the step does not count`);
      }
    }
  }
}
