import { afterEach, describe, expect, it, vi } from 'vitest';
import { openDevice } from '../../src/executor/load/open-device.js';
import type {
  Attention,
  EncoderSight,
  Linear,
  ModelGraph,
  Norm,
  Residual,
  Rope,
  Value,
} from '../../src/executor/model/values.js';
import { families } from '../../src/executor/models/index.js';
import { llamaEmbeddings, type TestedPooling } from '../support/encoder-answers.js';
import { EncoderSteps, POOLED_AS } from '../support/encoder-steps.js';
import {
  encoderArchitecture,
  type RandomEncoderName,
  type RandomEncoderOptions,
  writeRandomEncoder,
} from '../support/random-encoders.js';

// Twice what llama.cpp's table of f16 makes of GELU (encoders.test.ts).
const SEEN = 2e-3;

const device = openDevice({ kind: 'host' });

type Mistake = (graph: ModelGraph) => ModelGraph;

/** Every value of the graph, from the inside out, as `change` makes it. */
const each =
  (change: (value: Value) => Value): Mistake =>
  (graph) => {
    const inner = (value: Residual | Value): Residual | Value => (value.kind === 'residual' ? value : outer(value));
    const outer = (value: Value): Value => {
      if (value.kind === 'attention') return change({ ...value, qkv: outer(value.qkv) as Attention['qkv'] });
      return change({ ...value, of: inner((value as Extract<Value, { of: Value }>).of) } as Value);
    };
    return { ...graph, residualBranches: graph.residualBranches.map(outer) };
  };
const attentions = (change: (attention: Attention) => Partial<Attention>): Mistake =>
  each((value) => (value.kind === 'attention' ? { ...value, ...change(value) } : value));
const sights = (change: (sight: EncoderSight) => Partial<EncoderSight>): Mistake =>
  attentions(({ sight }) => ({ sight: { ...sight, ...change(sight as EncoderSight) } }));
const reaches = (change: (reach: number) => number | undefined): Mistake =>
  sights(({ reach }) => (reach === undefined ? {} : { reach: change(reach) }));
/** Rotations of layers with a window, or of the others. */
const ropes = (isSlidingWindow: boolean, change: Partial<Rope>): Mistake => {
  let changed: Rope | undefined;
  return attentions(({ rope, sight }) => {
    if ((sight?.reach !== undefined) !== isSlidingWindow) return {};
    changed ??= { ...rope, ...change };
    return { rope: changed };
  });
};
const without =
  (index: number): Mistake =>
  (graph) => ({ ...graph, residualBranches: graph.residualBranches.toSpliced(index, 1) });
const otherGate: Mistake = each((value) =>
  value.kind === 'gated' ? { ...value, activation: value.activation === 'silu' ? 'gelu' : 'silu' } : value,
);

const MISTAKES: Readonly<Partial<Record<RandomEncoderName, Readonly<Record<string, Mistake>>>>> = {
  bert: {
    'no kinds of segments': (graph) => ({ ...graph, segments: undefined }),
    'no positions': (graph) => ({ ...graph, positions: undefined }),
    'no norm of the embeddings': without(0),
    'no norm behind attention': without(2),
    'no norm behind the MLP': without(4),
    'norms without a mean': each((value) => {
      if (value.kind !== 'norm') return value;
      const { isCentered: _isCentered, ...norm } = value;
      return norm;
    }),
    'an MLP of max(x, 0)²': each((value) =>
      value.kind === 'activated' ? { ...value, activation: 'relu-squared' } : value,
    ),
    'a window where there is none': sights(() => ({ reach: 40 })),
  },
  'nomic-bert': {
    'no rotation': ropes(false, { factor: Number.POSITIVE_INFINITY }),
    'adjacent pairs': ropes(false, { pairing: 'interleaved' }),
    'another base': ropes(false, { base: 10_000 }),
    'no kinds of segments': (graph) => ({ ...graph, segments: undefined }),
    'a gate of GELU': otherGate,
  },
  'gemma-embedding': {
    'a window that is one position wider': reaches((reach) => reach + 1),
    'a window that is one position narrower': reaches((reach) => reach - 1),
    'a window twice as wide, as if it were all on one side': reaches((reach) => 2 * reach),
    'no window': reaches(() => undefined),
    'the base of windowed layers in all': ropes(false, { base: 10_000 }),
    'no norms of heads': attentions(() => ({ qkNorm: undefined })),
    'a gate of SiLU': otherGate,
    'no scale of embeddings': (graph) => ({ ...graph, embeddingScale: undefined }),
  },
  'gemma-embedding-dense': {
    'no products behind the norm': (graph) => {
      const { of } = graph.states as Linear;
      return { ...graph, states: (of as Linear).of as Norm };
    },
  },
  'modern-bert': {
    'a window that is one position wider': reaches((reach) => reach + 1),
    'no window': reaches(() => undefined),
    'the last of three layers without a window, instead of the first': attentions(({ layer }) => ({
      sight: layer % 3 === 2 ? {} : { reach: 10 },
    })),
    'one base for all layers': ropes(true, { base: 160_000 }),
    'no norm of the embeddings': without(0),
    'a gate of SiLU': otherGate,
  },
  'jina-bert-v2': {
    'no slopes': sights(() => ({ slopes: undefined })),
    'slopes as if heads were a power of two': sights(({ slopes }) => ({
      slopes: slopes!.map((_, head) => 2 ** ((-8 * (head + 1)) / slopes!.length)),
    })),
    'a gate of SiLU': otherGate,
  },
};

/** The largest difference of llama.cpp’s embedding of the longest text, in the deviations of its elements. */
async function differenceOf(
  name: RandomEncoderName,
  pooling: TestedPooling,
  pooledAs = pooling,
  options: RandomEncoderOptions = {},
): Promise<number> {
  const [longest] = llamaEmbeddings(name, pooling);
  const { tokens, embedding } = longest!;
  const steps = await EncoderSteps.load(device, writeRandomEncoder(name, options));
  const [pooled] = await steps.pooled([tokens], POOLED_AS[pooledAs]);
  steps.release();
  const deviation = Math.sqrt(embedding.reduce((sum, value) => sum + value ** 2, 0) / embedding.length);
  return Math.max(...embedding.map((value, i) => Math.abs(value - pooled![i]!))) / deviation;
}

const planted = Object.entries(MISTAKES).flatMap(([name, mistakes]) =>
  Object.entries(mistakes).map(([what, mistake]) => [name as RandomEncoderName, what, mistake] as const),
);

describe('what is easily mistaken in an encoder is seen in its embeddings', () => {
  afterEach(() => {
    vi.restoreAllMocks();
  });

  it.each(planted)('%s: %s', async (name, _what, mistake) => {
    const family = families[encoderArchitecture(name)];
    const build = family.build.bind(family);
    vi.spyOn(family, 'build').mockImplementation((model, tensors) => mistake(build(model, tensors)));
    expect(await differenceOf(name, 'cls')).toBeGreaterThan(SEEN);
  });

  it.each([
    ['the second kind of segment', 'token_types'],
    ['positions from one on', 'position_embd'],
  ] as const)('bert: %s', async (_what, table) => {
    expect(await differenceOf('bert', 'mean', 'mean', { shifted: [table] })).toBeGreaterThan(SEEN);
  });

  it.each([
    ['cls', 'mean'],
    ['mean', 'cls'],
    ['last', 'mean'],
    ['cls', 'last'],
  ] as const)('%s taken for %s', async (pooling, mistaken) => {
    expect(await differenceOf('bert', pooling, mistaken)).toBeGreaterThan(SEEN);
    expect(await differenceOf('bert', pooling)).toBeLessThan(SEEN / 2);
  });
});
