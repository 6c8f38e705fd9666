import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { packageRoot } from '../../src/shared/package.js';
import { Random } from './random.js';
import {
  CLS,
  encoderArchitecture,
  RANDOM_ENCODER_VOCABULARY,
  type RandomEncoderName,
  SEP,
  writeRandomEncoder,
} from './random-encoders.js';

const FIXTURES = path.join('test', 'fixtures', 'encoders');
const MADE = path.join('build', 'encoders');

/** Poolings that llama.cpp's embeddings are made with, by the number that files have for them. */
export const POOLINGS = { mean: 1, cls: 2, last: 3 } as const;
export type TestedPooling = keyof typeof POOLINGS;

/** A text of so many tokens, between the two that every text has. */
export function randomText(length: number, seed: number): number[] {
  const random = new Random(seed);
  const ids = Array.from({ length: length - 2 }, () => 5 + Math.floor(random.next() * (RANDOM_ENCODER_VOCABULARY - 5)));
  return [CLS, ...ids, SEP];
}

/** Texts past every window on both sides, and shorter than one. */
export const TEXTS: readonly (readonly number[])[] = [randomText(100, 1), randomText(7, 2), randomText(33, 3)];

/** An encoder's random model with a pooling of its file. */
export const writePooledEncoder = (name: RandomEncoderName, pooling: TestedPooling): string =>
  writeRandomEncoder(name, { metadata: { [`${encoderArchitecture(name)}.pooling_type`]: POOLINGS[pooling] } });

export interface EmbeddedText {
  readonly tokens: readonly number[];
  readonly embedding: readonly number[];
}

/**
 * Embeddings of {@link TEXTS} by llama.cpp, made by bench/peers/make-embeddings.mjs of the very files that the seed gives.
 *
 * @throws Error where there are none yet: the model and the inputs are in build/encoders/ then, and the message has the command
 */
export function llamaEmbeddings(name: RandomEncoderName, pooling: TestedPooling): readonly EmbeddedText[] {
  const answers = path.join(FIXTURES, `${name}-${pooling}.json`);
  if (existsSync(path.join(packageRoot, answers)))
    return (JSON.parse(readFileSync(path.join(packageRoot, answers), 'utf8')) as { cases: EmbeddedText[] }).cases;
  const [model, inputs] = [path.join(MADE, `${name}-${pooling}.gguf`), path.join(MADE, 'inputs.json')];
  mkdirSync(path.join(packageRoot, MADE), { recursive: true });
  copyFileSync(writePooledEncoder(name, pooling), path.join(packageRoot, model));
  writeFileSync(path.join(packageRoot, inputs), JSON.stringify(TEXTS));
  throw new Error(
    `${name} has no embeddings of llama.cpp by ${pooling}; run: ` +
      `node bench/peers/make-embeddings.mjs --model ${model} --inputs ${inputs} -o ${answers}`,
  );
}
