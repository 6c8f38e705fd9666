import path from 'node:path';
import { openDevice } from '../../executor/load/open-device.js';
import { RocmForgeError } from '../../shared/errors.js';
import { ExecutorLoop } from '../bench/executor-loop.js';
import { tokenRate } from '../bench/rates.js';
import type { ModelOptionValues } from '../common/options.js';
import { temporaryFolder } from '../common/temporary-folder.js';
import { SHAPES } from '../synth/shapes.js';
import { synth } from '../synth/synth.js';
import { type PredictedSpeed, predictedSpeeds } from './predicted-speeds.js';

/** Tokens whose middle is where predictions are of. */
const TOKENS = 64;
const POSITION = 512;
const REPEATS = 3;

export interface SpeedOptions extends Pick<ModelOptionValues, 'device' | 'gpu' | 'threads' | 'kernels' | 'attention'> {
  /** Shape of `rocmforge synth`. */
  readonly shape: string;
  readonly type: string;
}

export interface MeasuredKernel {
  readonly kernel: string;
  readonly launches: number;
  readonly microseconds: number;
}

export interface SpeedReport {
  readonly device: string;
  readonly target: string;
  readonly shape: string;
  readonly type: string;
  readonly tokensPerSecond: number;
  /** Bytes a second of a kernel that only reads. */
  readonly read: number;
  /** One launch after the other, the longest first; what a launch of nothing takes is in each. */
  readonly kernels: readonly MeasuredKernel[];
  /** Its prediction; absent if there is none. */
  readonly predicted?: PredictedSpeed;
  /** Targets of which something of that shape and type was. */
  readonly predictedTargets: readonly string[];
}

/**
 * Measures a sequence of a model of a shape with random weights, which is written to the folder for temporary files, and finds what was
 * predicted for it.
 *
 * @throws RocmForgeError `INVALID_OPTION` for a shape that is not known, `DEVICE_UNAVAILABLE` or a model's own refusal
 */
export async function speedBesidePrediction({
  shape,
  type,
  device: kind,
  ...options
}: SpeedOptions): Promise<SpeedReport> {
  if (SHAPES[shape] === undefined) {
    throw new RocmForgeError(
      'INVALID_OPTION',
      `there is no shape "${shape}"; there are ${Object.keys(SHAPES).join(', ')}`,
    );
  }
  const { target } = openDevice({ kind, ...options });
  const { folder, remove } = temporaryFolder('rocmforge-speed-');
  try {
    const file = path.join(folder, 'model.gguf');
    synth({ shape, type, output: file });
    const context = POSITION + TOKENS;
    const loop = await ExecutorLoop.open(file, context, { ...options, kind, kvCacheType: 'f16' });
    const prompt = Array.from({ length: POSITION - TOKENS / 2 }, (_, i) => i + 1);
    await loop.run(prompt, 4);
    let [tokensPerSecond, read] = [0, 0];
    for (let i = 0; i < REPEATS; i++) {
      read = Math.max(read, await loop.readBandwidth());
      const { tokenMs } = await loop.run(prompt, TOKENS);
      tokensPerSecond = Math.max(tokensPerSecond, tokenRate(tokenMs));
    }
    const kernels = await loop.profile(prompt);
    const ofModel = predictedSpeeds().filter((one) => one.shape === shape && one.type === type);
    const predicted = ofModel.find((one) => one.target === target);
    return {
      ...{ device: loop.description, target, shape, type, tokensPerSecond, read, kernels },
      ...(predicted && { predicted }),
      predictedTargets: ofModel.map((one) => one.target),
    };
  } finally {
    remove();
  }
}

/** A report for people: measured beside predicted, of a token and of each kernel. */
export function formatSpeed(report: SpeedReport): string {
  const { device, target, shape, type, tokensPerSecond, read, kernels, predicted, predictedTargets } = report;
  const lines = [
    `${device} (${target}), ${shape} ${type} with random weights, one sequence around position ${POSITION}`,
    `measured   ${tokensPerSecond.toFixed(1)} tokens/s; a kernel that only reads ${(read / 1e9).toFixed(1)} GB/s`,
  ];
  if (predicted === undefined) {
    const others =
      predictedTargets.length === 0
        ? 'nothing of this shape and type is predicted'
        : `predictions are of ${predictedTargets.join(', ')}`;
    lines.push(`predicted  nothing for ${target}: ${others}`);
  } else {
    const [low, high] = [predicted.speeds.at(-1), predicted.speeds[0]].map(
      (speed) => speed?.tokensPerSecond as number,
    ) as [number, number];
    const range = low === high ? low.toFixed(1) : `${low.toFixed(1)} to ${high.toFixed(1)}`;
    lines.push(
      `predicted  ${range} tokens/s on ${predicted.card}: ${((100 * tokensPerSecond) / ((low + high) / 2)).toFixed(0)} % of that is measured`,
    );
  }
  lines.push('', `${'kernel'.padEnd(40)} launches  measured, µs  predicted, µs`);
  for (const { kernel, launches, microseconds } of kernels) {
    const of = predicted?.kernels[kernel];
    const beside = of === undefined ? '' : of.us.toFixed(1);
    lines.push(
      `${kernel.padEnd(40)} ${String(launches).padStart(8)}  ${microseconds.toFixed(1).padStart(12)}  ${beside.padStart(13)}`,
    );
  }
  return `${lines.join('\n')}\n`;
}
