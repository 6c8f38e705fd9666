// One file because it is one reference: each part of a forward pass in float64, in the order of the pass.
import { isBlockType } from '../../src/executor/kernels/index.js';
import { gelu } from '../kernels/reference/geglu.js';
import { quantizeQ8 } from '../kernels/reference/quantize_q8.js';
import { silu } from '../kernels/reference/swiglu.js';
import { xielu } from '../kernels/reference/xielu.js';
import { fromHalf, toHalf } from '../kernels/support/half.js';
import { float64DeltaNet } from './float64-delta-net.js';
import { float64Gemma3n } from './float64-gemma3n.js';
import { float64Gemma4 } from './float64-gemma4.js';
import { float64Latents } from './float64-latents.js';
import { float64Mamba } from './float64-mamba.js';
import { readFloat64 } from './float64-tensors.js';

type Row = Float64Array;

/** Architectures that are defined as another one is. */
const SAME: Readonly<Record<string, string>> = {
  ...{ baichuan: 'llama', deci: 'llama', ernie4_5: 'llama', internlm2: 'llama', nanbeige: 'llama', xverse: 'llama' },
  ...{
    codeshell: 'starcoder2',
    jais2: 'starcoder2',
    nemotron: 'starcoder2',
    orion: 'starcoder2',
    stablelm: 'starcoder2',
  },
  phi2: 'falcon',
  ...{
    exaone: 'qwen2',
    paddleocr: 'qwen2',
    'pangu-embedded': 'qwen2',
    qwen2vl: 'qwen2',
    qwen3vl: 'qwen3',
    qwen3vlmoe: 'qwen3moe',
  },
};

export interface Float64Options {
  /** llama.cpp takes GELU from a table of f16, by the gate rounded to f16. */
  readonly geluTable?: boolean;
  /** True if phi3's window is seen; llama.cpp has switched it off. */
  readonly phi3Window?: boolean;
  /** True if what matrices of blocks multiply is rounded as `quantize_q8` rounds it. */
  readonly roundsInputs?: boolean;
  /** Told of each router by how much a score would have to be off for the next expert to be chosen in place of the last. */
  readonly onGap?: (gap: number, layer: number, position: number) => void;
}

/** Product of a row of a matrix, from this element on, with a vector: four sums, because one waits for each addition. */
function rowProduct(weight: Row, from: number, x: Row): number {
  const sums: [number, number, number, number] = [0, 0, 0, 0];
  let i = 0;
  for (; i + 4 <= x.length; i += 4) {
    sums[0] += weight[from + i]! * x[i]!;
    sums[1] += weight[from + i + 1]! * x[i + 1]!;
    sums[2] += weight[from + i + 2]! * x[i + 2]!;
    sums[3] += weight[from + i + 3]! * x[i + 3]!;
  }
  let sum = sums[0] + sums[1] + (sums[2] + sums[3]);
  for (; i < x.length; i++) sum += weight[from + i]! * x[i]!;
  return sum;
}

/**
 * A model in F32, F16 or in blocks, which stand for numbers, computed in double from its file, as the published definitions have it: one row after the other, nothing
 * fused, nothing shared with the executor. Slow.
 *
 * @returns the logits after each of the tokens
 */
export function float64Forward(path: string, tokens: readonly number[], options: Float64Options = {}): Row[] {
  const { metadata, tensors, tensor } = readFloat64(path);
  const architecture = metadata.string('general.architecture')!;
  const number = (key: string, otherwise?: number): number => {
    const value = metadata.number(`${architecture}.${key}`) ?? otherwise;
    if (value === undefined) throw new Error(`no ${key}`);
    return value;
  };
  const has = (name: string) => tensors.has(name);
  const same = SAME[architecture] ?? architecture;
  const is = (...names: string[]) => names.includes(same);
  const isGemma = is('gemma', 'gemma2', 'gemma3', 'gemma3n', 'gemma4');
  const isApart = is('nemotron_h', 'nemotron_h_moe');
  const isHybrid = is('qwen35', 'qwen35moe', 'qwen3next');
  const sigmoid = (value: number) => 1 / (1 + Math.exp(-value));

  const hidden = number('embedding_length');
  const perLayer = (key: string) => Number(metadata.numbers(`${architecture}.${key}`)?.[0]);
  const single = (key: string) =>
    ArrayBuffer.isView(metadata.get(`${architecture}.${key}`)) ? perLayer(key) : number(key);
  const heads = single('attention.head_count');
  const kvHeads = is('gemma3n', 'gemma4', 'lfm2', 'lfm2moe', 'granitehybrid', 'nemotron_h', 'nemotron_h_moe')
    ? Math.max(...Array.from(metadata.numbers(`${architecture}.attention.head_count_kv`) ?? []))
    : single('attention.head_count_kv');
  const headDim = number('attention.key_length', hidden / heads);
  const isCentered = is('command-r', 'cohere2', 'starcoder2', 'falcon', 'gptneox');
  const epsilon = number(`attention.layer_norm_${isCentered ? '' : 'rms_'}epsilon`);
  const layers = number('block_count');
  const rotary = number('rope.dimension_count', headDim);
  const base = number('rope.freq_base', 10_000);
  const context = number('context_length');
  const original = number('rope.scaling.original_context_length', context);
  const scaling = metadata.string(`${architecture}.rope.scaling.type`);
  const window = number('attention.sliding_window', 0);

  const inputOf = (name: string, x: Row): Row => {
    const isRounded = options.roundsInputs && isBlockType(tensors.get(`${name}.weight`)!.type.toLowerCase());
    if (!isRounded) return x;
    const { quants, scales } = quantizeQ8(Float32Array.from(x));
    return Float64Array.from(quants, (quant, i) => quant * scales[i >> 5]!);
  };
  const product = (name: string, input: Row): Row => {
    const x = inputOf(name, input);
    const weight = tensor(`${name}.weight`);
    const y = new Float64Array(weight.length / x.length);
    const bias = has(`${name}.bias`) ? tensor(`${name}.bias`) : undefined;
    for (let row = 0; row < y.length; row++) y[row] = (bias?.[row] ?? 0) + rowProduct(weight, row * x.length, x);
    return y;
  };
  const biased = (name: string, y: Row): Row => {
    const bias = has(`${name}.bias`) ? tensor(`${name}.bias`) : undefined;
    return bias === undefined ? y : y.map((value, i) => value + bias[i]!);
  };
  /** @param first the first of its weights */
  const norm = (name: string, x: Row, first = 0): Row => {
    const weight = tensor(has(`${name}.weight`) ? `${name}.weight` : name);
    const mean = isCentered ? x.reduce((sum, value) => sum + value, 0) / x.length : 0;
    const scale = 1 / Math.sqrt(x.reduce((sum, value) => sum + (value - mean) ** 2, 0) / x.length + epsilon);
    return biased(
      name,
      x.map((value, i) => (value - mean) * scale * weight[first + i]!),
    );
  };

  /** Frequencies of a layer and what its rotations are multiplied by. */
  const ropeOf = (isSlidingWindow: boolean): { frequencies: number[]; magnitude: number } => {
    const own = is('gemma3') && isSlidingWindow ? 10_000 : base;
    const plain = Array.from({ length: rotary / 2 }, (_, j) => own ** ((-2 * j) / rotary));
    if (isSlidingWindow && is('gemma3', 'olmo2', 'mellum')) return { frequencies: plain, magnitude: 1 };
    const magnitude = number('rope.scaling.attn_factor', 1);
    if (has('rope_factors_long.weight')) {
      const divisors = tensor(context > original ? 'rope_factors_long.weight' : 'rope_factors_short.weight');
      return { frequencies: plain.map((frequency, j) => frequency / divisors[j]!), magnitude };
    }
    const factor = number('rope.scaling.factor', 1);
    if (has('rope_freqs.weight')) {
      const divisors = tensor('rope_freqs.weight');
      return { frequencies: plain.map((frequency, j) => frequency / divisors[j]!), magnitude };
    }
    if (scaling === 'linear') return { frequencies: plain.map((frequency) => frequency / factor), magnitude };
    if (scaling !== 'yarn') return { frequencies: plain, magnitude };
    const place = (turns: number) => (rotary * Math.log(original / (turns * 2 * Math.PI))) / (2 * Math.log(own));
    const low = Math.max(Math.floor(place(number('rope.scaling.yarn_beta_fast', 32))), 0);
    const high = Math.min(Math.ceil(place(number('rope.scaling.yarn_beta_slow', 1))), rotary - 1);
    const frequencies = plain.map((frequency, j) => {
      const ramp = Math.min(Math.max((j - low) / Math.max(high - low, 0.001), 0), 1);
      return (frequency / factor) * ramp + frequency * (1 - ramp);
    });
    const multiplier = number('rope.scaling.yarn_log_multiplier', 0);
    const grown = (by: number) => 1 + 0.1 * by * Math.log(factor);
    return { frequencies, magnitude: (magnitude * grown(1)) / grown(multiplier) };
  };
  const isVision = is('glm4') && metadata.get('glm4.rope.dimension_sections') !== undefined;
  const isAdjacent =
    is(
      'llama',
      'arcee',
      'chatglm',
      'granite',
      'granitemoe',
      'granitehybrid',
      'smollm3',
      'mistral3',
      'command-r',
      'cohere2',
    ) ||
    is('minicpm', 'ernie4_5-moe', 'deepseek2', 'deepseek', 'bailingmoe', 'maincoder') ||
    (is('glm4') && !isVision);
  const turn = (head: Row, position: number, { frequencies, magnitude }: ReturnType<typeof ropeOf>): Row => {
    const y = head.slice();
    for (const [j, frequency] of frequencies.entries()) {
      const [first, second] = isAdjacent ? [2 * j, 2 * j + 1] : [j, j + rotary / 2];
      const [cosine, sine] = [magnitude * Math.cos(position * frequency), magnitude * Math.sin(position * frequency)];
      y[first] = head[first]! * cosine - head[second]! * sine;
      y[second] = head[first]! * sine + head[second]! * cosine;
    }
    return y;
  };

  const windowed = (layer: number): boolean => {
    if (window === 0) return false;
    if (is('gemma2', 'gpt-oss')) return layer % 2 === 0;
    if (is('gemma3')) return layer % 6 < 5;
    if (is('olmo2', 'cohere2', 'exaone4', 'mellum')) return layer % 4 < 3;
    return is('phi3') && options.phi3Window === true;
  };
  const isGranite = is('granite', 'granitemoe', 'granitehybrid');
  const attentionScale = isGranite ? number('attention.scale', 1 / Math.sqrt(headDim)) : 1 / Math.sqrt(headDim);
  const scoreCap = is('gemma2') ? number('attn_logit_softcapping') : undefined;
  const cap = (value: number, by: number | undefined) => (by === undefined ? value : by * Math.tanh(value / by));
  const floor = number('attention.temperature_length', original);
  const temperature = (position: number) =>
    is('mistral3', 'deepseek2')
      ? 1 + number('attention.temperature_scale', 0) * Math.log(1 + Math.floor(position / floor))
      : 1;
  const headsOf = (x: Row): Row[] =>
    Array.from({ length: x.length / headDim }, (_, head) => x.slice(head * headDim, (head + 1) * headDim));

  const attend = (layer: number, xs: readonly Row[]): Row[] => {
    const block = `blk.${layer}`;
    const rope = ropeOf(windowed(layer));
    const isGlobal = window > 0 && !windowed(layer);
    const isRotated =
      !isApart &&
      !(is('granite', 'granitehybrid') && metadata.boolean(`${architecture}.rope.scaling.finetuned`) === false) &&
      !(is('smollm3') && (layer + 1) % 4 === 0) &&
      !(is('cohere2', 'exaone4') && isGlobal);
    const wide = heads * headDim;
    const narrow = kvHeads * headDim;
    const rows = xs.map((x, position) => {
      let [q, k, v] = has(`${block}.attn_qkv.weight`)
        ? ((all) => [all.slice(0, wide), all.slice(wide, wide + narrow), all.slice(wide + narrow)])(
            product(`${block}.attn_qkv`, x),
          ).map((value, i) => biased(`${block}.attn_${'qkv'[i]}`, value))
        : ['q', 'k', 'v'].map((name) => product(`${block}.attn_${name}`, x));
      if (is('olmo2', 'olmoe', 'minimax-m2'))
        [q, k] = [norm(`${block}.attn_q_norm`, q!), norm(`${block}.attn_k_norm`, k!)];
      let [queries, keys] = [headsOf(q!), headsOf(k!)];
      const gates = isHybrid ? queries.filter((_, i) => i % 2 === 1) : [];
      if (isHybrid) queries = queries.filter((_, i) => i % 2 === 0);
      if (
        is(
          'qwen3',
          'apertus',
          'gemma3',
          'qwen3moe',
          'mellum',
          'glm4moe',
          'qwen35',
          'qwen35moe',
          'qwen3next',
          'exaone4',
          'dots1',
          'bailingmoe2',
          'lfm2',
          'lfm2moe',
        )
      ) {
        queries = queries.map((head) => norm(`${block}.attn_q_norm`, head));
        keys = keys.map((head) => norm(`${block}.attn_k_norm`, head));
      }
      if (is('command-r', 'starcoder2') && has(`${block}.attn_q_norm.weight`)) {
        queries = queries.map((head, i) => norm(`${block}.attn_q_norm`, head, i * headDim));
        keys = keys.map((head, i) => norm(`${block}.attn_k_norm`, head, i * headDim));
      }
      const rotated = (head: Row) => (isRotated ? turn(head, position, rope) : head);
      if (is('hunyuan-dense', 'hunyuan-moe', 'maincoder')) {
        const normed = (name: string, head: Row) => norm(`${block}.${name}`, rotated(head));
        queries = queries.map((head) => normed('attn_q_norm', head));
        keys = keys.map((head) => normed('attn_k_norm', head));
        return { queries, keys, values: headsOf(v!), gates };
      }
      return { queries: queries.map(rotated), keys: keys.map(rotated), values: headsOf(v!), gates };
    });
    return rows.map(({ queries, gates }, position) => {
      const out = new Float64Array(wide);
      const first = windowed(layer) ? Math.max(0, position - window + 1) : 0;
      for (const [head, q] of queries.entries()) {
        const kvHead = Math.floor(head / (heads / kvHeads));
        const seen = rows.slice(first, position + 1);
        const scores = seen.map(({ keys }) => {
          const dot = keys[kvHead]!.reduce((sum, value, i) => sum + value * q[i]!, 0);
          return cap(dot * temperature(position) * attentionScale, scoreCap);
        });
        const sink = has(`${block}.attn_sinks.weight`) ? tensor(`${block}.attn_sinks.weight`)[head]! : -Infinity;
        const largest = Math.max(...scores, sink);
        const exponentials = scores.map((score) => Math.exp(score - largest));
        const total = exponentials.reduce((sum, value) => sum + value, Math.exp(sink - largest));
        for (const [i, { values }] of seen.entries()) {
          for (let e = 0; e < headDim; e++)
            out[head * headDim + e]! += (exponentials[i]! / total) * values[kvHead]![e]!;
        }
      }
      for (const [head, gate] of gates.entries())
        for (const [i, value] of gate.entries()) out[head * headDim + i]! *= sigmoid(value);
      return product(`${block}.attn_output`, out);
    });
  };

  /** LFM2's gated convolution: c · (weight * (b · x)) over the rows. */
  const convolve = (block: string, xs: readonly Row[]): Row[] => {
    const weight = tensor(`${block}.shortconv.conv.weight`);
    const taps = weight.length / hidden;
    const gates = xs.map((x) => product(`${block}.shortconv.in_proj`, x));
    return gates.map((own, row) => {
      const y = new Float64Array(hidden);
      for (let i = 0; i < hidden; i++) {
        for (let back = 0; back < taps && back <= row; back++) {
          const before = gates[row - back]!;
          y[i]! += weight[i * taps + taps - 1 - back]! * before[i]! * before[2 * hidden + i]!;
        }
        y[i]! *= own[hidden + i]!;
      }
      return product(`${block}.shortconv.out_proj`, y);
    });
  };

  const netOf = (block: string) => ({
    keyHeads: number('ssm.group_count'),
    valueHeads: number('ssm.time_step_rank'),
    dim: number('ssm.state_size'),
    epsilon,
    isGrouped: is('qwen3next'),
    product: (name: string, x: Row) => product(`${block}.${name}`, x),
    tensor: (name: string) => tensor(`${block}.${name}`),
  });

  const mambaOf = (block: string) => ({
    heads: number('ssm.time_step_rank'),
    dim: number('ssm.inner_size') / number('ssm.time_step_rank'),
    state: number('ssm.state_size'),
    groups: number('ssm.group_count'),
    epsilon,
    product: (name: string, x: Row) => product(`${block}.${name}`, x),
    tensor: (name: string) => tensor(`${block}.${name}`),
    has: (name: string) => has(`${block}.${name}`),
  });

  const latentsOf = (block: string) => {
    const [rank, keys] = [number('attention.kv_lora_rank'), number('attention.key_length_mla')];
    const rope = ropeOf(false);
    const grown =
      scaling === 'yarn'
        ? 1 + number('rope.scaling.yarn_log_multiplier', 0) * Math.log(number('rope.scaling.factor', 1))
        : 1;
    return {
      ...{ heads, rank, plain: keys - rotary, rotated: rotary, valueDim: number('attention.value_length_mla') },
      scale: grown ** 2 / Math.sqrt(keys),
      product: (name: string, x: Row) => product(`${block}.${name}`, x),
      productOf: (name: string, which: number, count: number, x: Row) => productOf(`${block}.${name}`, which, count, x),
      norm: (name: string, x: Row) => norm(`${block}.${name}`, x),
      tensor: (name: string) => tensor(`${block}.${name}`),
      has: (name: string) => has(`${block}.${name}`),
      turn: (vector: Row, position: number) => turn(vector, position, { ...rope, magnitude: 1 }),
      temperature,
    };
  };

  const geluOf = (value: number): number =>
    options.geluTable ? fromHalf(toHalf(gelu(fromHalf(toHalf(value))))) : gelu(value);
  const activation = isGemma ? geluOf : silu;
  const squared = (value: number): number => Math.max(value, 0) ** 2;
  /** Activation of MLPs without a gate. */
  const ungated =
    isApart || ['arcee', 'nemotron', 'jais2'].includes(architecture)
      ? squared
      : ['starcoder2', 'codeshell', 'phi2', 'falcon', 'gptneox'].includes(architecture)
        ? geluOf
        : undefined;
  const mlp = (layer: number, x: Row): Row => {
    const block = `blk.${layer}`;
    if (ungated !== undefined) return product(`${block}.ffn_down`, product(`${block}.ffn_up`, x).map(ungated));
    if (is('apertus')) {
      const of = (name: string): number => metadata.numbers(`xielu.${name}`)![layer]!;
      const softplus = (value: number) => Math.log1p(Math.exp(value));
      const beta = of('beta');
      const [alphaN, alphaP] = [beta + softplus(of('alpha_n')), softplus(of('alpha_p'))];
      return product(`${block}.ffn_down`, xielu(product(`${block}.ffn_up`, x), alphaN, alphaP, beta, of('eps')));
    }
    let [gate, up] = has(`${block}.ffn_gate.weight`)
      ? [product(`${block}.ffn_gate`, x), product(`${block}.ffn_up`, x)]
      : ((both) => [both.slice(0, both.length / 2), both.slice(both.length / 2)])(product(`${block}.ffn_up`, x));
    gate = gate!.map(activation);
    return product(
      `${block}.ffn_down`,
      gate.map((value, i) => value * up![i]!),
    );
  };

  /** Rows of one of several matrices behind each other. */
  const productOf = (name: string, which: number, count: number, input: Row): Row => {
    const x = inputOf(name, input);
    const weight = tensor(`${name}.weight`);
    const size = weight.length / count;
    const bias = has(`${name}.bias`) ? tensor(`${name}.bias`) : undefined;
    const y = new Float64Array(size / x.length);
    for (let row = 0; row < y.length; row++) {
      y[row] = (bias?.[which * y.length + row] ?? 0) + rowProduct(weight, which * size + row * x.length, x);
    }
    return y;
  };
  const softmax = (scores: Row): Row => {
    const exponentials = scores.map((score) => Math.exp(score - Math.max(...scores)));
    const total = exponentials.reduce((sum, value) => sum + value, 0);
    return exponentials.map((value) => value / total);
  };
  /** Experts of the groups whose two best have the highest sums. */
  const bestGroups = (choice: Row, count: number, used: number): ((expert: number) => boolean) => {
    const size = choice.length / count;
    const sums = Array.from({ length: count }, (_, group) => {
      const [first = 0, second = 0] = [...choice.slice(group * size, (group + 1) * size)].sort((a, b) => b - a);
      return first + second;
    });
    const best = [...sums.keys()].sort((a, b) => sums[b]! - sums[a]!).slice(0, used);
    return (expert) => best.includes(Math.floor(expert / size));
  };
  const mixture = (layer: number, x: Row, position: number): Row => {
    const block = `blk.${layer}`;
    const [count, used] = [number('expert_count'), number('expert_used_count')];
    const scores = product(`${block}.ffn_gate_inp`, x);
    const hasSigmoids =
      is('glm4moe', 'dots1', 'lfm2moe', 'nemotron_h_moe', 'minimax-m2') || number('expert_gating_func', 0) === 2;
    const weights = is('gpt-oss') ? scores : hasSigmoids ? scores.map(sigmoid) : softmax(scores);
    const choice = has(`${block}.exp_probs_b.bias`)
      ? weights.map((weight, e) => weight + tensor(`${block}.exp_probs_b.bias`)[e]!)
      : weights;
    const allowed = bestGroups(choice, number('expert_group_count', 1), number('expert_group_used_count', 1));
    const ranked = [...choice.keys()].filter(allowed).sort((a, b) => choice[b]! - choice[a]!);
    // Parts of a softmax are in the order of their scores; what a sigmoid makes of an error is its slope's.
    const [last, next] = [ranked[used - 1]!, ranked[used]!];
    const slope = Math.max(...[last, next].map((e) => sigmoid(scores[e]!) * sigmoid(-scores[e]!)));
    const gap = hasSigmoids ? (choice[last]! - choice[next]!) / slope : scores[last]! - scores[next]!;
    options.onGap?.(gap, layer, position);
    const chosen = ranked.slice(0, used);
    if (is('gpt-oss')) {
      const shares = softmax(Float64Array.from(chosen, (e) => scores[e]!));
      for (const [i, e] of chosen.entries()) weights[e] = shares[i]!;
    }
    const isNormalized =
      is(
        'llama',
        'minimax-m2',
        'hunyuan-moe',
        'mellum',
        'qwen3moe',
        'phimoe',
        'granitemoe',
        'qwen35moe',
        'qwen3next',
        'ernie4_5-moe',
        'mistral3',
        'granite',
        'granitehybrid',
        'lfm2moe',
      ) || metadata.boolean(`${architecture}.expert_weights_norm`);
    const total = isNormalized ? chosen.reduce((sum, e) => sum + weights[e]!, 0) : 1;
    const scale = number('expert_weights_scale', 1);
    const y = new Float64Array(hidden);
    for (const e of chosen) {
      const clamped = is('gpt-oss');
      if (isApart) {
        const up = productOf(`${block}.ffn_up_exps`, e, count, x).map((value) => Math.max(value, 0) ** 2);
        const made = productOf(`${block}.ffn_down_exps`, e, count, up);
        for (const [i, value] of made.entries()) y[i]! += (weights[e]! / total) * scale * value;
        continue;
      }
      const joined = `${block}.ffn_gate_up_exps`;
      const both = has(`${joined}.weight`) ? productOf(joined, e, count, x) : undefined;
      const half = (both?.length ?? 0) / 2;
      const gate = (both?.slice(0, half) ?? productOf(`${block}.ffn_gate_exps`, e, count, x)).map((value) =>
        clamped ? Math.min(value, 7) * sigmoid(1.702 * Math.min(value, 7)) : silu(value),
      );
      const up = (both?.slice(half) ?? productOf(`${block}.ffn_up_exps`, e, count, x)).map((value) =>
        clamped ? Math.max(-7, Math.min(7, value)) + 1 : value,
      );
      const down = productOf(
        `${block}.ffn_down_exps`,
        e,
        count,
        gate.map((value, i) => value * up[i]!),
      );
      for (const [i, value] of down.entries()) y[i]! += (weights[e]! / total) * scale * value;
    }
    if (!has(`${block}.ffn_up_shexp.weight`)) return y;
    if (isApart) {
      const up = product(`${block}.ffn_up_shexp`, x).map((value) => Math.max(value, 0) ** 2);
      return product(`${block}.ffn_down_shexp`, up).map((value, i) => value + y[i]!);
    }
    const gate = product(`${block}.ffn_gate_shexp`, x).map(silu);
    const up = product(`${block}.ffn_up_shexp`, x);
    const shared = product(
      `${block}.ffn_down_shexp`,
      gate.map((value, i) => value * up[i]!),
    );
    const share = has(`${block}.ffn_gate_inp_shexp.weight`)
      ? sigmoid(product(`${block}.ffn_gate_inp_shexp`, x)[0]!)
      : 1;
    return y.map((value, i) => value + share * shared[i]!);
  };

  if (is('gemma3n', 'gemma4')) {
    const listOf = (key: string): readonly number[] => {
      const value = metadata.get(`${architecture}.${key}`);
      return Array.from(value as unknown as ArrayLike<number | boolean>, Number);
    };
    const onGap = options.onGap ?? (() => undefined);
    const forward = is('gemma4') ? float64Gemma4 : float64Gemma3n;
    return forward({ tensor, has, product, productOf, number, perLayer: listOf, activation, onGap }, tokens);
  }
  const embedding = tensor(has('token_embd.weight') ? 'token_embd.weight' : 'output.weight');
  const isMinicpm = is('minicpm');
  const embeddingScale = isGemma
    ? Math.sqrt(hidden)
    : isGranite || isMinicpm
      ? number('embedding_scale', isMinicpm ? 12 : 1)
      : 1;
  const residualScale = isGranite || isMinicpm ? number('residual_scale', isMinicpm ? 1.4 / Math.sqrt(layers) : 1) : 1;
  let xs = tokens.map((id) => embedding.slice(id * hidden, (id + 1) * hidden).map((value) => value * embeddingScale));
  for (let layer = 0; layer < layers; layer++) {
    const block = `blk.${layer}`;
    const before = (name: string, x: Row) => (is('olmo2', 'exaone4') ? x : norm(`${block}.${name}`, x));
    const after = (name: string, x: Row) =>
      is('gemma2', 'gemma3', 'glm4', 'olmo2', 'exaone4')
        ? norm(`${block}.${name}`, x)
        : x.map((value) => value * residualScale);
    const ownNorm = has(`${block}.attn_norm_2.weight`) ? 'attn_norm_2' : 'attn_norm';
    const normed = xs.map((x) => before(ownNorm, x));
    const isFfn = ['ffn_up', 'ffn_up_exps'].some((name) => has(`${block}.${name}.weight`));
    if (isApart && isFfn) {
      const ffn = has(`${block}.ffn_gate_inp.weight`) ? mixture : mlp;
      xs = xs.map((x, row) => ffn(layer, normed[row]!, row).map((value, i) => value + x[i]!));
      continue;
    }
    const isStateSpace = has(`${block}.ssm_in.weight`);
    const isNet = has(`${block}.ssm_out.weight`) && !isStateSpace;
    const isConvolution = has(`${block}.shortconv.conv.weight`);
    const mamba = isStateSpace ? float64Mamba(mambaOf(block), normed) : undefined;
    const attended = mamba
      ? has(`${block}.attn_q.weight`)
        ? attend(layer, normed).map((row, position) => row.map((value, i) => value + mamba[position]![i]!))
        : mamba
      : isNet
        ? float64DeltaNet(netOf(block), normed)
        : isConvolution
          ? convolve(block, normed)
          : has(`${block}.attn_kv_a_mqa.weight`)
            ? float64Latents(latentsOf(block), normed)
            : attend(layer, normed);
    if (
      is('command-r', 'cohere2', 'falcon') ||
      (is('starcoder2') && !has(`${block}.ffn_norm.weight`)) ||
      (is('gptneox') && metadata.boolean(`${architecture}.use_parallel_residual`))
    ) {
      xs = xs.map((x, row) => {
        const made = mlp(layer, norm(`${block}.${is('gptneox') ? 'ffn_norm' : 'attn_norm'}`, x));
        return x.map((value, i) => value + attended[row]![i]! + made[i]!);
      });
      continue;
    }
    xs = xs.map((x, row) => {
      const added = after('post_attention_norm', attended[row]!);
      return x.map((value, i) => value + added[i]!);
    });
    if (isApart) continue;
    xs = xs.map((x, position) => {
      const ffn = has(`${block}.ffn_gate_inp.weight`) ? mixture : mlp;
      const added = after(
        'post_ffw_norm',
        ffn(
          layer,
          before(isHybrid || is('glm4moe', 'gpt-oss', 'seed_oss') ? 'post_attention_norm' : 'ffn_norm', x),
          position,
        ),
      );
      return x.map((value, i) => value + added[i]!);
    });
  }
  const output = has('output.weight') ? 'output' : 'token_embd';
  const lastNorm = has('token_embd_norm.weight') ? 'token_embd_norm' : 'output_norm';
  const logitsScale =
    isGranite || isMinicpm
      ? 1 / number('logit_scale', isMinicpm ? 256 / hidden : undefined)
      : is('command-r', 'cohere2')
        ? number('logit_scale')
        : 1;
  const logitsCap = is('gemma2') ? number('final_logit_softcapping') : undefined;
  return xs.map((x) => product(output, norm(lastNorm, x)).map((logit) => cap(logit * logitsScale, logitsCap)));
}
