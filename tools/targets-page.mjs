// The text of docs/targets.md: which card runs which AMD target, and what of it was executed.
import { AMD_TARGETS } from './amd-targets.mjs';

/** @param executed what the emulator ran, by target: test/emulator/executed.json, which `npm run test:emulator` keeps */
export function targetsPage(executed) {
  const rows = AMD_TARGETS.map(({ target, cards, clang, products }) => {
    const run = executed[target];
    const told = run
      ? `${run.kernels} kernels of ${run.objects} code objects executed, ${run.passed} tests passed, ${run.failed} failed (${run.date}, \`${run.commit}\`)`
      : 'compiled only';
    return `| ${cards} | \`${target}\` | ${products} | ${clang} | ${told} |`;
  });
  return [
    '# Cards and targets',
    '',
    'Written by `npm run docs` from `tools/amd-targets.mjs` and `test/emulator/executed.json`, which `npm run test:emulator` keeps',
    'when `ROCMFORGE_RECORD_EMULATED` is set. The package has code objects of every target here. No target has run on hardware:',
    '"executed" is by an instruction set emulator, against references in float64, whole suites for gfx1100 and gfx942 and a kernel of',
    'each kind for the others ([what ran](verification.md)). `npm run check:kernels` holds all to the registers and LDS that the',
    'hardware has: none spills in a matrix product or in attention.',
    '',
    '| cards | target | tiles multiplied by | clang, from | executed |',
    '| --- | --- | --- | --- | --- |',
    ...rows,
    '',
    'A card without code objects of its own runs those of the generic target of its kind, where the ROCm runtime knows them: they are',
    'in version 6 of the code object format. `rocmforge doctor` says which it takes. `gfx1031` to `gfx1036` (RX 6700 and below) have no',
    'objects of their own; with `HSA_OVERRIDE_GFX_VERSION=10.3.0` they pass for `gfx1030`, which nobody has tried here.',
    '',
    'GPUs without matrix units multiply tiles by dot instructions, of words that lanes take from each other',
    '(`kernels/forge/tile_dots.h`). Simulated lanes run the same code in CI, against the references and to the bit beside the forms that',
    'go row by row.',
    '',
  ].join('\n');
}
