// Random models of the tests' families as files: F16, blocks of 256, heads of 64, latents of 576, prediction blocks. For `rocmforge verify` on a GPU,
// and `bench/gpu/answers.mjs --vocabulary 290` with those that predict.
//
//   npx tsc -p tsconfig.json --noEmit false --outDir build/bench --rootDir .
//   node build/bench/bench/gpu/family-files.js --output build/families [--families llama,qwen3]
import { copyFileSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { writeQuantizedFamily } from '../../test/support/quantized-family.js';
import { RANDOM_ALIAS_NAMES, RANDOM_FAMILY_NAMES, type RandomFamilyName } from '../../test/support/random-families.js';
import { writeRandomFamily } from '../../test/support/random-model.js';

// Run from the repository root, whichever folder this file is compiled to.
await import(path.resolve('tools', 'temporary-folder.mjs'));

const { values: options } = parseArgs({
  options: {
    output: { type: 'string' },
    families: { type: 'string', default: [...RANDOM_FAMILY_NAMES, ...RANDOM_ALIAS_NAMES].join() },
  },
});
const output = options.output as string;
mkdirSync(output, { recursive: true });
const keep = (name: string, file: string): void => copyFileSync(file, path.join(output, `${name}.gguf`));

/** Families whose heads may have another size; not those that list their heads by layer. */
const ANY_HEADS =
  'llama,qwen2,qwen3,granite,gemma2,gemma3,qwen3moe,qwen35,qwen35moe,qwen3next,falcon-h1,glm4moe,cohere2';
/** Weights with which a token alone decides what follows, nearly, and the prediction block predicts it. */
const MARKOV = {
  ...{ attn_output: 0.02, ffn_down: 0.02, ssm_out: 0.02, ffn_down_exps: 0.02, ffn_down_shexp: 0.02 },
  output: 10,
};

for (const family of options.families.split(',') as RandomFamilyName[]) {
  keep(`${family}-f16`, writeRandomFamily(family, { type: 'F16' }));
  keep(`${family}-q4km`, writeQuantizedFamily(family, 'Q4_K_M'));
  if (ANY_HEADS.split(',').includes(family))
    keep(`${family}-heads64-f16`, writeRandomFamily(family, { type: 'F16', headDim: 64 }));
  if (family === 'deepseek2') {
    const latents = { queryRank: 96, rank: 512, plain: 128, rotated: 64, valueDim: 128 };
    keep('deepseek2-576-f16', writeRandomFamily(family, { type: 'F16', latents }));
  }
  if (['qwen35', 'qwen35moe', 'glm4moe'].includes(family)) {
    for (const [suffix, scaled] of [
      ['', {}],
      ['-markov', MARKOV],
    ] as const)
      keep(
        `${family}-predicts${suffix}-f16`,
        writeRandomFamily(family, { type: 'F16', contextLength: 2048, predicts: true, scaled }),
      );
  }
}
