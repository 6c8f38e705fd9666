import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { packageRoot } from '../../src/shared/package.js';
import { randomText } from './encoder-answers.js';
import {
  encoderArchitecture,
  type RandomEncoderName,
  type RandomEncoderOptions,
  type RandomHead,
  SEP,
  writeRandomEncoder,
} from './random-encoders.js';

const FIXTURES = path.join('test', 'fixtures', 'rerankers');
const MADE = path.join('build', 'rerankers');

/** Heads of published rerankers. */
export const RANDOM_RERANKERS = {
  /** bge-reranker-base, -v2-m3, jina-reranker-v2. */
  'bert-dense': { encoder: 'bert', head: { dense: 'hidden', isBiased: true, labels: 1 } },
  /** ms-marco-MiniLM as it is converted, and classifiers of several labels. */
  'bert-labels': { encoder: 'bert', head: { labels: 3 } },
  /** One product, as jina-reranker-v1 has it. */
  'jina-bert-v2': { encoder: 'jina-bert-v2', head: { dense: 1, isBiased: true } },
  /** gte-reranker-modernbert. */
  'modern-bert': { encoder: 'modern-bert', head: { dense: 'hidden', isNormed: true, labels: 1 } },
} as const satisfies Readonly<Record<string, { readonly encoder: RandomEncoderName; readonly head: RandomHead }>>;
export type RandomRerankerName = keyof typeof RANDOM_RERANKERS;
export const RANDOM_RERANKER_NAMES = Object.keys(RANDOM_RERANKERS) as readonly RandomRerankerName[];

const RANK = 4;

/** Writes the random model of a reranker. @returns its path, in a temporary folder */
export function writeRandomReranker(name: RandomRerankerName, options: RandomEncoderOptions = {}): string {
  const { encoder, head } = RANDOM_RERANKERS[name];
  const metadata = { [`${encoderArchitecture(encoder)}.pooling_type`]: RANK, ...options.metadata };
  return writeRandomEncoder(encoder, { ...options, head, metadata });
}

/** A query and a document between the tokens around them, of so many tokens in all. */
export const PAIRS: readonly (readonly number[])[] = [
  [90, 1],
  [12, 2],
  [33, 3],
  [60, 4],
].map(([length, seed]) => [...randomText(8, seed! + 20), ...randomText(length! - 7, seed!).slice(1)]);

export interface ScoredPair {
  readonly tokens: readonly number[];
  /** One for each label. */
  readonly scores: readonly number[];
}

/**
 * Scores of {@link PAIRS} by llama.cpp, made by bench/peers/make-scores.mjs of the very files that the seed gives.
 *
 * @throws Error where there are none yet: the model and the inputs are in build/rerankers/ then, and the message has the command
 */
export function llamaScores(name: RandomRerankerName): readonly ScoredPair[] {
  const answers = path.join(FIXTURES, `${name}.json`);
  if (existsSync(path.join(packageRoot, answers)))
    return (JSON.parse(readFileSync(path.join(packageRoot, answers), 'utf8')) as { cases: ScoredPair[] }).cases;
  const [model, inputs] = [path.join(MADE, `${name}.gguf`), path.join(MADE, 'inputs.json')];
  mkdirSync(path.join(packageRoot, MADE), { recursive: true });
  copyFileSync(writeRandomReranker(name), path.join(packageRoot, model));
  writeFileSync(path.join(packageRoot, inputs), JSON.stringify(PAIRS));
  const { head } = RANDOM_RERANKERS[name];
  const labels = 'labels' in head ? head.labels : 1;
  throw new Error(
    `${name} has no scores of llama.cpp; run: ` +
      `node bench/peers/make-scores.mjs --model ${model} --inputs ${inputs} --labels ${labels} -o ${answers}`,
  );
}

/** Id that separates the two texts. */
export const SEPARATOR = SEP;
