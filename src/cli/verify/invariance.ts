import { createHash } from 'node:crypto';
import type { Device } from '../../executor/device/device.js';
import type { LoadedModel } from '../../executor/load/loaded-model.js';
import { type Slice, StepDriver } from './step-driver.js';

/** Tokens of prompt number `seed`, below `vocabulary`. */
export const promptOf = (seed: number, length: number, vocabulary: number) =>
  Uint32Array.from(
    { length },
    (_, i) => 3 + ((seed * 7919 + i * 104_729 + i * i) % (Math.min(vocabulary, 32_768) - 32)),
  );

/** Tokens of the sequence whose logits are hashed, and decoded tokens after them. */
export const INVARIANCE_PROMPT = 300;
const DECODED = 3;

let epochs = 0n;

/**
 * Runs one prompt in chunks, then three decoded tokens, among other sequences.
 *
 * @param others how many sequences run beside it
 * @param length of the prompt, tokens
 * @returns a hash of each of the four rows of logits
 */
export async function logitsHashes(
  device: Device,
  model: LoadedModel,
  chunk: number,
  others = 0,
  length = INVARIANCE_PROMPT,
): Promise<readonly string[]> {
  const rows = await logitsRows(device, model, chunk, others, length);
  return rows.map((logits) => createHash('sha256').update(logits).digest('hex'));
}

/** The rows of logits that {@link logitsHashes} hashes. */
export async function logitsRows(
  device: Device,
  model: LoadedModel,
  chunk: number,
  others: number,
  length: number,
): Promise<readonly Float32Array[]> {
  const vocabulary = model.forward.model.vocabularySize;
  const prompt = promptOf(1, length, vocabulary);
  epochs += 1n;
  const driver = new StepDriver(device, model, epochs);
  const step = async (slices: readonly Slice[], opens?: readonly (readonly [number, Uint32Array])[]) =>
    ((await driver.step(slices, opens)).at(-1) as Float32Array).slice();
  const rows: Float32Array[] = [];
  const slot = others;
  const companions = Array.from({ length: others }, (_, i) => ({ slot: i, length: 20 + 2 * i }));
  let steps = 0;
  for (let position = 0; position < prompt.length; position += chunk) {
    const count = Math.min(chunk, prompt.length - position);
    const last = position + count === prompt.length;
    const opens: (readonly [number, Uint32Array])[] =
      position === 0
        ? [
            ...companions.map((one) => [one.slot, promptOf(one.slot + 2, one.length, vocabulary)] as const),
            [slot, prompt],
          ]
        : [];
    const beside = companions.map(
      (one): Slice => (position === 0 ? [one.slot, 0, one.length, true] : [one.slot, one.length + steps - 1, 1, true]),
    );
    steps += 1;
    const slices: readonly Slice[] = [...beside, [slot, position, count, last]];
    if (last) rows.push(await step(slices, opens));
    else await driver.sample(slices, opens);
  }
  for (let i = 0; i < DECODED; i++) {
    rows.push(await step([[slot, prompt.length + i, 1, true]]));
  }
  return rows;
}
