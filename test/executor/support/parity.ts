import { describe, expect, it } from 'vitest';
import { type ParityCase, readParityCases, teacherForced } from '../../../src/cli/verify/teacher-forced.js';
import { sharedPath } from '../../support/shared-data.js';
import { BOUNDS } from './parity-bounds.js';

type Options = NonNullable<Parameters<typeof teacherForced>[2]>;

/** Holds a device to llama.cpp's log probabilities, each parity file by its own rule, or to a `part` of each. */
export function describeParity(
  options: Options = {},
  { timeout = 600_000, part = (cases: readonly ParityCase[]) => cases } = {},
): void {
  describe.each(Object.entries(BOUNDS))('%s, fed llama.cpp’s tokens', (parityName, { model: modelName, mean, max }) => {
    const model = sharedPath(`data/models/${modelName}.gguf`);
    const parity = sharedPath(`data/parity/${parityName}.json`);

    it.skipIf(!model || !parity)(
      `strays from its log probabilities by ${mean} in the mean, ${max} at most`,
      { timeout },
      async () => {
        const deviation = await teacherForced(model!, part(readParityCases(parity!)), options);
        console.log(
          `${parityName}: mean ${deviation.mean.toFixed(4)}, max ${deviation.max.toFixed(3)} over ${deviation.steps} steps; ` +
            `${deviation.sameToken} have the same likeliest token`,
        );
        expect(deviation.mean).toBeLessThanOrEqual(mean);
        expect(deviation.max).toBeLessThanOrEqual(max);
      },
    );
  });

  describe('stories260K-f32, a trained model, fed llama.cpp’s tokens', () => {
    const model = sharedPath('data/models/stories260K-f32.gguf');
    const parity = sharedPath('data/parity/stories260K-f32.json');

    it.skipIf(!model || !parity)(
      'chooses every one of its tokens, with log probabilities within 1e-4',
      { timeout },
      async () => {
        const deviation = await teacherForced(model!, part(readParityCases(parity!)), options);
        expect(deviation.sameToken).toBe(deviation.steps);
        expect(deviation.max).toBeLessThanOrEqual(1e-4);
      },
    );
  });
}
