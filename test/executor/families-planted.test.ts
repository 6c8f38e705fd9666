// One file because it is one table of mistakes, by family, and the few changes of graphs that they are made of.
import path from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { readParityCases, teacherForced } from '../../src/cli/verify/teacher-forced.js';
import type { MatrixRef } from '../../src/executor/model/tensors.js';
import {
  type Activated,
  type Attention,
  type DeltaNet,
  type Experts,
  type LatentAttention,
  type Linear,
  type Mamba,
  type MixedStreams,
  type ModelGraph,
  type Residual,
  type ShortConv,
  type Value,
  withInputs,
  x,
} from '../../src/executor/model/values.js';
import { families } from '../../src/executor/models/index.js';
import { type ArchitectureName, familyOf } from '../../src/lib/gguf/architectures.js';
import type { ServableModel } from '../../src/lib/gguf/servable-model.js';
import { packageRoot } from '../../src/shared/package.js';
import { architectureOf, type RandomFamilyName } from '../support/random-families.js';
import { writeRandomFamily } from '../support/random-model.js';

// Twice what llama.cpp's table of f16 makes of GELU (families.test.ts); every other family is within 1e-5.
const SEEN = 2e-3;

/** Another graph than a family builds. */
type Mistake = (graph: ModelGraph, model: ServableModel) => ModelGraph;

/** Every value of the graph, from the inside out, as `change` makes it. */
const each =
  (change: (value: Value) => Value): Mistake =>
  (graph) => {
    const inner = (value: Residual | Value): Residual | Value => (value.kind === 'residual' ? value : outer(value));
    const outer = (value: Value): Value => {
      if (value.kind === 'attention') return change({ ...value, qkv: outer(value.qkv) as Attention['qkv'] });
      if (value.kind === 'latent-attention') {
        const [query, compressed] = [value.query, value.compressed].map(outer) as [Linear, Linear];
        return change({ ...value, query, compressed });
      }
      if (value.kind === 'sum') return change({ ...value, of: [outer(value.of[0]), outer(value.of[1])] });
      return change({ ...value, of: inner(value.of) } as Value);
    };
    const logits = graph.logits && (outer(graph.logits) as Linear);
    return { ...graph, residualBranches: graph.residualBranches.map(outer), logits };
  };
const attentions = (change: (attention: Attention) => Partial<Attention>): Mistake =>
  each((value) => (value.kind === 'attention' ? { ...value, ...change(value) } : value));
const ropes = (change: (rope: Attention['rope'], attention: Attention) => Partial<Attention['rope']>): Mistake => {
  // Layers share a rotation, of which there is one pair of tables.
  const changed = new Map<string, Attention['rope']>();
  return attentions((attention) => {
    const rope = { ...attention.rope, ...change(attention.rope, attention) };
    const key = JSON.stringify(rope, (_, value) => (value === Number.POSITIVE_INFINITY ? 'infinite' : value));
    if (!changed.has(key)) changed.set(key, rope);
    return { rope: changed.get(key) as Attention['rope'] };
  });
};
/** Attention to keys of another input. */
const withInput = (attention: Attention, of: Linear['of']): Attention => ({
  ...attention,
  qkv: { ...attention.qkv, of },
});
const uncentered: Mistake = each((value) => {
  if (value.kind !== 'norm') return value;
  const { isCentered: _isCentered, ...norm } = value;
  return norm;
});
/** Parallel attention and MLP one after the other. */
const inTurn: Mistake = (graph) => ({
  ...graph,
  residualBranches: graph.residualBranches.flatMap((value) => (value.kind === 'sum' ? value.of : [value])),
});
const nets = (change: (net: DeltaNet) => Partial<DeltaNet>): Mistake =>
  each((value) => (value.kind === 'delta-net' ? { ...value, ...change(value) } : value));
const convolutions = (change: (value: ShortConv) => Partial<ShortConv>): Mistake =>
  each((value) => (value.kind === 'short-conv' ? { ...value, ...change(value) } : value));
const mixtures = (change: (value: MixedStreams) => MixedStreams): Mistake =>
  each((value) => (value.kind === 'mixed-streams' ? change(value) : value));
/** Scores of 0 have no shares. */
const withoutShares = (mix: MixedStreams): MixedStreams => ({ ...mix, scale: 0 });
const mambas = (change: (value: Mamba) => Partial<Mamba>): Mistake =>
  each((value) => (value.kind === 'mamba' ? { ...value, ...change(value) } : value));
const latents = (change: (value: LatentAttention) => Partial<LatentAttention>): Mistake =>
  each((value) => (value.kind === 'latent-attention' ? { ...value, ...change(value) } : value));
/** The rotation of all layers of latent attention, of which there is one pair of tables. */
const latentRopes = (change: Partial<Attention['rope']>): Mistake => {
  let changed: Attention['rope'] | undefined;
  return latents(({ rope }) => {
    changed ??= { ...rope, ...change };
    return { rope: changed };
  });
};
const otherPairs = ropes(({ pairing }) => ({ pairing: pairing === 'neox' ? 'interleaved' : 'neox' }));
const wholeHeads = ropes((_, { headDim }) => ({ dimensions: headDim }));
/** Norms of what is added are taken for norms before the next layer: they are left out. */
const noPostNorms: Mistake = (graph) => ({
  ...graph,
  residualBranches: graph.residualBranches.map((value) => (value.kind === 'norm' ? (value.of as Value) : value)),
});
const silu = each((value) => (value.kind === 'gated' ? { ...value, activation: 'silu' } : value));
const routers = (change: (router: Experts['router']) => Partial<Experts['router']>): Mistake =>
  each((value) =>
    value.kind === 'experts' ? { ...value, router: { ...value.router, ...change(value.router) } } : value,
  );
/** An MLP without a gate as if its matrix were gate and up. */
const gatedByItself = each((value) => {
  if (value.kind !== 'activated') return value;
  const { weights, biases, of } = value.of;
  const both = <T>(parts: readonly T[]): readonly T[] => [...parts, ...parts];
  const product = { kind: 'linear' as const, weights: both(weights), biases: biases && both(biases), of };
  return { kind: 'gated', activation: 'silu', of: product };
});

const noSharedExpert = each((value) => (value.kind === 'sum' ? value.of[0] : value));
const swappedExperts = each((value) =>
  value.kind === 'experts' ? { ...value, gate: value.up, up: value.gate } : value,
);
const unscaled = each((value) => (value.kind === 'scaled' ? value.of : value));

const everyRotated: Mistake = (graph, model) => {
  const [first] = attentionsOf(graph);
  return attentions(() => ({ rope: first!.rope }))(graph, model);
};

const MISTAKES: Partial<Record<RandomFamilyName, Readonly<Record<string, Mistake>>>> = {
  llama: { 'pairs of halves': otherPairs },
  'llama-biased': {
    'no bias of gate and up': each((value) =>
      value.kind === 'gated' ? { ...value, of: { ...value.of, biases: undefined } } : value,
    ),
    'no bias of the attention’s output': each((value) =>
      value.kind === 'linear' && value.of.kind === 'attention' ? { ...value, biases: undefined } : value,
    ),
  },
  'llama-yarn': {
    'every frequency stretched': ropes(() => ({ yarn: undefined })),
    'no magnitude': ropes(() => ({ magnitude: 1 })),
  },
  qwen2: {
    'adjacent pairs': otherPairs,
    'no biases': each((value) => (value.kind === 'linear' ? { ...value, biases: undefined } : value)),
  },
  qwen3: { 'no norms of heads': attentions(() => ({ qkNorm: undefined })) },
  gemma: {
    'the embedding as it is': (graph) => ({ ...graph, embeddingScale: undefined }),
    silu,
    'adjacent pairs': otherPairs,
  },
  gemma2: {
    'norms after attention and MLP left out': noPostNorms,
    'scores not capped': attentions(() => ({ softcap: undefined })),
    'logits not capped': (graph) => ({ ...graph, logitsSoftcap: undefined }),
    'no window': attentions(() => ({ window: undefined })),
    'a window one too long': attentions(({ window }) => ({ window: window && window + 1 })),
    'the other layers windowed': attentions(({ layer }) => ({ window: layer % 2 === 0 ? undefined : 24 })),
    'scores by the width of the residual stream': attentions(({ heads }) => ({ scale: 1 / Math.sqrt(64 / heads) })),
  },
  gemma3: {
    'norms after attention and MLP left out': noPostNorms,
    'windowed layers rotated as the others are': (graph, model) => {
      const [global] = [...attentionsOf(graph)].filter(({ window }) => window === undefined);
      return attentions(() => ({ rope: global!.rope }))(graph, model);
    },
    'positions of windowed layers divided': ropes((_, { window }) => (window === undefined ? {} : { factor: 8 })),
    'no window': attentions(() => ({ window: undefined })),
    'no norms of heads': attentions(() => ({ qkNorm: undefined })),
  },
  phi3: {
    'short factors for a long context': ropes(({ divisors }) => ({
      divisors: divisors && 'short' in divisors ? divisors.short : divisors,
    })),
    'no magnitude': ropes(() => ({ magnitude: 1 })),
    'adjacent pairs': otherPairs,
  },
  glm4: {
    'norms after attention and MLP left out': noPostNorms,
    'whole heads rotated': wholeHeads,
    'pairs of halves': otherPairs,
  },
  chatglm: { 'whole heads rotated': wholeHeads, 'pairs of halves': otherPairs },
  granite: {
    'the embedding as it is': (graph) => ({ ...graph, embeddingScale: undefined }),
    'what is added as it is': unscaled,
    'logits multiplied': (graph) => ({ ...graph, logitsScale: 1 / graph.logitsScale! }),
    'scores by the head’s size': attentions(({ headDim }) => ({ scale: 1 / Math.sqrt(headDim) })),
    'pairs of halves': otherPairs,
  },
  'stablelm-parallel': {
    'no norms of q and k': attentions(() => ({ qkNorm: undefined })),
    'all heads of k with the weights of q’s first': attentions(({ qkNorm }) => ({
      qkNorm: { ...qkNorm!, key: qkNorm!.query },
    })),
    'norms of heads without their means': attentions(({ qkNorm }) => ({
      qkNorm: { ...qkNorm!, over: 'head' },
    })),
    'the MLP behind attention': (graph) => {
      const residualBranches = graph.residualBranches.flatMap((value) =>
        value.kind === 'sum' ? [...value.of] : [value],
      );
      return { ...graph, residualBranches };
    },
  },
  olmo2: {
    'norms after attention and MLP left out': noPostNorms,
    'no norms of q and k': attentions(() => ({ qkNorm: undefined })),
    'windowed layers stretched by yarn': (graph, model) => {
      const [global] = [...attentionsOf(graph)].filter(({ window }) => window === undefined);
      return attentions(() => ({ rope: global!.rope }))(graph, model);
    },
    'the residual stream normalized before': (graph) => {
      const weight = graph.residualBranches.find((value) => value.kind === 'norm')!.weight;
      const normed: Value = { kind: 'norm', weight, epsilon: 1e-5, of: x };
      return each((value) =>
        value.kind === 'linear' && value.of.kind === 'residual' ? { ...value, of: normed } : value,
      )(graph, {} as ServableModel);
    },
  },
  smollm3: { 'every layer rotated': everyRotated },
  mistral3: {
    'queries as they are': ropes(() => ({ temperature: undefined })),
    'no share of the magnitude': ropes(({ magnitude }) => ({ magnitude: magnitude * (1 + 0.1 * 0.7 * Math.log(4)) })),
    'frequencies mixed from other places': ropes(({ yarn }) => ({
      yarn: yarn && { ...yarn, betaFast: 32, betaSlow: 1 },
    })),
  },
  'command-r': {
    'norms that subtract no mean': uncentered,
    'the MLP after attention': inTurn,
    'logits divided': (graph) => ({ ...graph, logitsScale: 1 / graph.logitsScale! }),
    'pairs of halves': otherPairs,
  },
  'llama-experts': {
    'weights as the softmax gives them': routers(() => ({ isNormalized: false })),
    'an expert less': routers(({ used }) => ({ used: used - 1 })),
    'gate and up taken for one another': swappedExperts,
  },
  qwen2moe: {
    'weights that add up to 1': routers(() => ({ isNormalized: true })),
    'the shared expert without its gate': each((value) => (value.kind === 'row-gated' ? value.of : value)),
    'no shared expert': noSharedExpert,
  },
  qwen3moe: {
    'weights as the softmax gives them': routers(() => ({ isNormalized: false })),
    'no norms of heads': attentions(() => ({ qkNorm: undefined })),
  },
  phimoe: {
    'weights as the softmax gives them': routers(() => ({ isNormalized: false })),
    LayerNorms: each((value) => (value.kind === 'norm' ? { ...value, isCentered: true } : value)),
    'norms without biases': each((value) => (value.kind === 'norm' ? { ...value, bias: undefined } : value)),
    'no bias of the attention’s output': each((value) =>
      value.kind === 'linear' && value.of.kind === 'attention' ? { ...value, biases: undefined } : value,
    ),
    'no bias of logits': (graph) => ({ ...graph, logits: graph.logits && { ...graph.logits, biases: undefined } }),
    'frequencies as they are': ropes(() => ({ divisors: undefined })),
    'adjacent pairs': ropes(() => ({ pairing: 'interleaved' })),
  },
  granitemoe: {
    'weights as the softmax gives them': routers(() => ({ isNormalized: false })),
    'no shared expert': noSharedExpert,
    'what experts add as it is': each((value) =>
      value.kind === 'scaled' && value.of.kind === 'experts' ? value.of : value,
    ),
  },
  glm4moe: {
    'a softmax': routers(() => ({ scoring: 'softmax' })),
    'weights that do not add up to 1': routers(() => ({ isNormalized: false })),
    'no scale of weights': routers(() => ({ scale: 1 })),
    'a choice without its bias': routers(() => ({ choiceBias: undefined })),
    'no shared expert': noSharedExpert,
    'adjacent pairs': otherPairs,
    'whole heads rotated': wholeHeads,
  },
  gemma3n: {
    'values as they are': attentions(() => ({ valueNormEpsilon: undefined })),
    'keys and values of another layer': attentions(({ isShared, layer }) => (isShared ? { layer: layer - 2 } : {})),
    'scores by the head’s size': attentions(({ headDim }) => ({ scale: 1 / Math.sqrt(headDim) })),
    'no window': attentions(() => ({ window: undefined })),
    'windowed layers of the other base': ropes(() => ({ base: 1_000_000 })),
    'all gates': each((value) => (value.kind === 'gated' ? { ...value, deviations: undefined } : value)),
    'sparse gates in every layer': each((value) => (value.kind === 'gated' ? { ...value, deviations: 1.64 } : value)),
    'no LAuReL': (graph) => ({
      ...graph,
      residualBranches: graph.residualBranches.map((value) => (value.kind === 'sum' ? value.of[1] : value)),
    }),
    'LAuReL without its input': each((value) =>
      value.kind === 'sum' && value.of[1].kind === 'norm' && value.of[1].of.kind === 'residual' ? value.of[0] : value,
    ),
    'not divided by √2': (graph) => ({
      ...graph,
      residualBranches: graph.residualBranches.filter(({ kind }) => kind !== 'rescaled'),
    }),
    'streams that are not predicted': mixtures((mix) => (mix.step === 'predicted' ? withoutShares(mix) : mix)),
    'streams corrected alike': mixtures((mix) => (mix.step === 'corrected' ? withoutShares(mix) : mix)),
    'scores not divided by the width': mixtures((mix) => ({ ...mix, scale: 1 })),
    'a corrected stream without its weight': mixtures((mix) => ({ ...mix, weight: undefined })),
    'inputs of layers for the residual stream': each((value) => (value.kind === 'other-streams' ? value.of : value)),
    'no inputs of layers': (graph) => ({
      ...graph,
      residualBranches: graph.residualBranches.filter((value) => !holds(value, 'layer-gated')),
    }),
    'streams that begin as they should end': (graph) => ({
      ...graph,
      altup: graph.altup && { entry: graph.altup.exit, exit: graph.altup.entry },
    }),
    'logits not capped': (graph) => ({ ...graph, logitsSoftcap: undefined }),
    silu: each((value) => (value.kind === 'gated' ? { ...value, activation: 'silu', deviations: undefined } : value)),
  },
  gemma4: {
    'values as they are': attentions(() => ({ valueNormEpsilon: undefined })),
    'keys and values of the layer before': attentions(({ isShared, layer }) => (isShared ? { layer: layer - 2 } : {})),
    'scores by the head’s size': attentions(({ headDim }) => ({ scale: 1 / Math.sqrt(headDim) })),
    'whole heads rotated': ropes(() => ({ divisors: undefined })),
    'the first half of the pairs rotated': ropes(({ divisors, dimensions }) =>
      divisors === undefined ? {} : { dimensions: dimensions / 2, divisors: undefined },
    ),
    'windowed layers of the other base': ropes(({ divisors, base }) =>
      divisors === undefined ? { base: 100 * base } : {},
    ),
    'no window': attentions(() => ({ window: undefined })),
    'no inputs of layers': (graph) => ({
      ...graph,
      residualBranches: graph.residualBranches.filter((value) => !holds(value, 'layer-gated')),
    }),
    'inputs of another layer': each((value) =>
      value.kind === 'layer-gated' ? { ...value, layer: Math.max(0, value.layer - 1) } : value,
    ),
    'the table’s rows as they are': (graph) => ({
      ...graph,
      layerInputs: graph.layerInputs && { ...graph.layerInputs, tableScale: 1 },
    }),
    'inputs not divided by √2': (graph) => ({
      ...graph,
      layerInputs: graph.layerInputs && { ...graph.layerInputs, scale: 1 },
    }),
    'the residual stream as it is': (graph) => ({
      ...graph,
      residualBranches: graph.residualBranches.filter(({ kind }) => kind !== 'rescaled'),
    }),
    'logits not capped': (graph) => ({ ...graph, logitsSoftcap: undefined }),
    silu,
  },
  'gemma4-large': {
    'normalized keys for values': attentions(({ window }) =>
      window === undefined ? { valueNormEpsilon: undefined } : {},
    ),
    'no window': attentions(() => ({ window: undefined })),
  },
  'gemma4-experts': {
    'scores of the experts’ input': each((value) =>
      value.kind === 'experts' ? { ...value, router: { ...value.router, of: value.of } } : value,
    ),
    'scores not divided': routers(() => ({ scoreScale: undefined })),
    'outputs of experts as they are': each((value) =>
      value.kind === 'experts' ? { ...value, outputScales: undefined } : value,
    ),
    'weights as the softmax gives them': routers(() => ({ isNormalized: false })),
    'no experts': noSharedExpert,
    'SwiGLU in experts': each((value) => (value.kind === 'experts' ? { ...value, activation: 'silu' } : value)),
  },
  lfm2: {
    'states of another layer': convolutions(({ layer }) => ({ layer: Math.max(0, layer - 1) })),
    'no norms of heads': attentions(() => ({ qkNorm: undefined })),
    'adjacent pairs': otherPairs,
  },
  deepseek2: {
    'scores without yarn’s scale': latents(({ plain, rope }) => ({ scale: 1 / Math.sqrt(plain + rope.dimensions) })),
    'rotations with yarn’s magnitude': latentRopes({ magnitude: 1 + 0.1 * Math.log(4) }),
    'every frequency stretched': latentRopes({ yarn: undefined }),
    'pairs of halves': latentRopes({ pairing: 'neox' }),
    'no temperature': latentRopes({ temperature: undefined }),
    'queries as if not normed': each((value) =>
      value.kind === 'norm' && value.of.kind === 'linear' ? { ...value, epsilon: 1 } : value,
    ),
    'an experts’ choice of all groups': routers(() => ({ groups: undefined })),
    'a choice of one group': routers(({ groups }) => ({ groups: groups && { ...groups, used: 1 } })),
    'a choice without its bias': routers(() => ({ choiceBias: undefined })),
    'no scale of weights': routers(() => ({ scale: 1 })),
    'no shared expert': noSharedExpert,
  },
  'deepseek2-lite': {
    sigmoids: routers(() => ({ scoring: 'sigmoid' })),
    'weights that add up to 1': routers(() => ({ isNormalized: true })),
    'keys of another layer': latents(({ layer }) => ({ layer: Math.max(0, layer - 1) })),
  },
  granitehybrid: {
    'attention rotated': ropes(() => ({ factor: 1 })),
    'no norm of what states give': mambas(() => ({ norm: undefined })),
    'states of another layer': mambas(({ layer }) => ({ layer: Math.max(0, layer - 1) })),
    'the rate for the skip': mambas(({ rate }) => ({ skip: rate })),
    'what is added as it is': unscaled,
    'no shared expert': noSharedExpert,
  },
  'falcon-h1': {
    'no state-space layers': each((value) => (value.kind === 'sum' ? value.of[0] : value)),
    'adjacent pairs': otherPairs,
    'one norm for all groups': mambas(({ norm }) => ({ norm, groups: 1, state: 128 })),
  },
  nemotron_h: {
    'attention rotated': ropes(() => ({ factor: 1 })),
    'states of another layer': mambas(({ layer }) => ({ layer: Math.max(0, layer - 1) })),
    'one norm for all groups': mambas(({ norm }) => ({ norm, groups: 1, state: 128 })),
    'SwiGLU of one matrix': gatedByItself,
  },
  nemotron_h_moe: {
    'a softmax': routers(() => ({ scoring: 'softmax' })),
    'weights that do not add up to 1': routers(() => ({ isNormalized: false })),
    'no scale of weights': routers(() => ({ scale: 1 })),
    'a choice without its bias': routers(() => ({ choiceBias: undefined })),
    'no shared expert': noSharedExpert,
    'a shared expert’s SwiGLU of one matrix': gatedByItself,
  },
  qwen3next: {
    'value heads in turn': nets(() => ({ isGrouped: undefined })),
    'states of another layer': nets(({ layer }) => ({ layer: Math.max(0, layer - 1) })),
    'weights as the softmax has them': routers(() => ({ isNormalized: false })),
  },
  lfm2moe: {
    'a softmax': routers(() => ({ scoring: 'softmax' })),
    'weights that do not add up to 1': routers(() => ({ isNormalized: false })),
    'a choice without its bias': routers(() => ({ choiceBias: undefined })),
  },
  cohere2: {
    'every layer rotated': everyRotated,
    'no layer rotated': ropes(() => ({ factor: Number.POSITIVE_INFINITY })),
    'no window': attentions(() => ({ window: undefined })),
    'the MLP after attention': inTurn,
    'pairs of halves': otherPairs,
  },
  starcoder2: {
    'norms that subtract no mean': uncentered,
    'norms without their bias': each((value) => (value.kind === 'norm' ? { ...value, bias: undefined } : value)),
    'the square of what is above 0': each((value) =>
      value.kind === 'activated' ? { ...value, activation: 'relu-squared' } : value,
    ),
    'adjacent pairs': otherPairs,
  },
  apertus: {
    'the same xIELU in all layers': (graph) => {
      const [first] = activatedOf(graph);
      return each((value) =>
        value.kind === 'activated' ? { ...value, activation: (first as Activated).activation } : value,
      )(graph, {} as ServableModel);
    },
    'no norms of heads': attentions(() => ({ qkNorm: undefined })),
  },
  nemotron: {
    GELU: each((value) => (value.kind === 'activated' ? { ...value, activation: 'gelu' } : value)),
  },
  jais2: {
    GELU: each((value) => (value.kind === 'activated' ? { ...value, activation: 'gelu' } : value)),
    'adjacent pairs': ropes(() => ({ pairing: 'interleaved' })),
  },
  paddleocr: { 'adjacent pairs': ropes(() => ({ pairing: 'interleaved' })) },
  falcon: { 'the MLP after attention': inTurn },
  'falcon-40b': {
    'attention of the norm of the MLP': each((value) => {
      if (value.kind !== 'sum') return value;
      const [attended, mlp] = value.of as [Linear, Linear];
      const up = (mlp.of as Activated).of;
      return { ...value, of: [{ ...attended, of: withInput(attended.of as Attention, up.of) }, mlp] };
    }),
  },
  gptneox: { 'the MLP after attention': inTurn },
  exaone4: {
    'every layer rotated': everyRotated,
    'no window': attentions(() => ({ window: undefined })),
    'no norms of heads': attentions(() => ({ qkNorm: undefined })),
    'frequencies not divided': ropes(() => ({ divisors: undefined })),
    'adjacent pairs': otherPairs,
  },
  'exaone4-global': {
    'norms after attention and MLP left out': noPostNorms,
    'every fourth layer not rotated': attentions(({ layer, rope }) =>
      layer % 4 === 3 ? { rope: { ...rope, factor: Number.POSITIVE_INFINITY } } : {},
    ),
  },
  seed_oss: {
    'adjacent pairs': otherPairs,
    'the norm before the MLP left out': each((value) =>
      value.kind === 'gated' ? { ...value, of: { ...value.of, of: x } } : value,
    ),
  },
  olmoe: {
    'weights that add up to 1': routers(() => ({ isNormalized: true })),
    'no norms of q and k': attentions(() => ({ qkNorm: undefined })),
    'adjacent pairs': otherPairs,
  },
  'ernie4_5-moe': {
    'a sigmoid': routers(() => ({ scoring: 'sigmoid' })),
    'weights as the softmax gives them': routers(() => ({ isNormalized: false })),
    'a choice without its bias': routers(() => ({ choiceBias: undefined })),
    'no shared expert': noSharedExpert,
    'pairs of halves': otherPairs,
  },
  dots1: {
    'a softmax': routers(() => ({ scoring: 'softmax' })),
    'no scale of weights': routers(() => ({ scale: 1 })),
    'a choice without its bias': routers(() => ({ choiceBias: undefined })),
    'no shared expert': noSharedExpert,
    'no norms of heads': attentions(() => ({ qkNorm: undefined })),
  },
  'glm4-vision': { 'adjacent pairs': otherPairs },
  minicpm: { 'logits multiplied': (graph) => ({ ...graph, logitsScale: 1 / graph.logitsScale! }) },
  'minicpm-old': { 'what is added as it is': unscaled },
  qwen2vl: { 'adjacent pairs': otherPairs },
  exaone: { 'frequencies not divided': ropes(() => ({ divisors: undefined })) },
  qwen35: {
    'adjacent pairs': otherPairs,
    'whole heads rotated': wholeHeads,
    'no norms of heads': attentions(() => ({ qkNorm: undefined })),
    'alpha and beta taken for one another': nets(({ of }) => {
      const [qkv, gate, beta, alpha] = of.weights as [MatrixRef, MatrixRef, MatrixRef, MatrixRef];
      return { of: { ...of, weights: [qkv, gate, alpha, beta] } };
    }),
    'rate and bias taken for one another': nets(({ rate, bias }) => ({ rate: bias, bias: rate })),
    'states of another layer': nets(({ layer }) => ({ layer: Math.max(0, layer - 1) })),
  },
  qwen35moe: {
    'weights as the softmax gives them': routers(() => ({ isNormalized: false })),
    'the shared expert without its gate': each((value) => (value.kind === 'row-gated' ? value.of : value)),
    'no shared expert': noSharedExpert,
  },
  'gpt-oss': {
    'the softmax over all': routers(() => ({ scoring: 'softmax' })),
    'no bias of scores': routers(() => ({ bias: undefined })),
    'the bias of scores for the choice alone': routers(({ bias }) => ({ bias: undefined, choiceBias: bias })),
    'no biases of experts': each((value) => (value.kind === 'experts' ? { ...value, biases: undefined } : value)),
    'plain SwiGLU': each((value) => (value.kind === 'experts' ? { ...value, activation: 'silu' } : value)),
    'no sinks': attentions(() => ({ sinks: undefined })),
    'no window': attentions(() => ({ window: undefined })),
    'the other layers windowed': attentions(({ layer }) => ({ window: layer % 2 === 0 ? undefined : 24 })),
    'no bias of the attention’s output': each((value) =>
      value.kind === 'linear' && value.of.kind === 'attention' ? { ...value, biases: undefined } : value,
    ),
  },
};

/** True if a value is computed from one of that kind. */
const holds = (value: Value, kind: Value['kind']): boolean => [...withInputs(value)].some((part) => part.kind === kind);

function* activatedOf(graph: ModelGraph): Generator<Activated> {
  for (const branch of graph.residualBranches)
    for (const value of withInputs(branch)) if (value.kind === 'activated') yield value;
}

function* attentionsOf(graph: ModelGraph): Generator<Attention> {
  const found: Attention[] = [];
  each((value) => {
    if (value.kind === 'attention') found.push(value);
    return value;
  })(graph, {} as ServableModel);
  yield* found;
}

const planted = Object.entries(MISTAKES).flatMap(([family, mistakes]) =>
  Object.entries(mistakes).map(([name, mistake]) => [family as RandomFamilyName, name, mistake] as const),
);

describe('what is easily mistaken in a family is seen in its log probabilities', () => {
  afterEach(() => {
    vi.restoreAllMocks();
  });

  it.each(planted)('%s: %s', async (name, _what, mistake) => {
    const family = families[familyOf(architectureOf(name)) as ArchitectureName];
    const build = family.build.bind(family);
    vi.spyOn(family, 'build').mockImplementation((model, tensors) => mistake(build(model, tensors), model));
    const cases = readParityCases(path.join(packageRoot, 'test', 'fixtures', 'families', `${name}.json`));
    const { max } = await teacherForced(writeRandomFamily(name), cases);
    expect(max).toBeGreaterThan(SEEN);
  });

  it.each(['phi3', 'glm4', 'chatglm'] as const)('%s: gate and up taken for one another', async (name) => {
    const cases = readParityCases(path.join(packageRoot, 'test', 'fixtures', 'families', `${name}.json`));
    const { max } = await teacherForced(writeRandomFamily(name, { swapsGateAndUp: true }), cases);
    expect(max).toBeGreaterThan(SEEN);
  });
});
