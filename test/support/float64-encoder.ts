import { gelu } from '../kernels/reference/geglu.js';
import { silu } from '../kernels/reference/swiglu.js';
import { fromHalf, toHalf } from '../kernels/support/half.js';
import { readFloat64 } from './float64-tensors.js';

type Row = Float64Array;

export interface EncoderOptions {
  /** llama.cpp takes GELU from a table of f16, by its argument rounded to f16. */
  readonly geluTable?: boolean;
}

/**
 * An encoder computed in double precision from its file, as the published definitions have it. Slow, and shares nothing with the
 * executor.
 *
 * @returns the hidden state of each token
 */
export function float64Encoder(path: string, tokens: readonly number[], { geluTable }: EncoderOptions = {}): Row[] {
  const { metadata, tensors, tensor } = readFloat64(path);
  const architecture = metadata.string('general.architecture')!;
  const number = (key: string, otherwise = 0): number => metadata.number(`${architecture}.${key}`) ?? otherwise;
  const has = (name: string) => tensors.has(name);
  const hidden = number('embedding_length');
  const heads = number('attention.head_count');
  const kvHeads = number('attention.head_count_kv', heads);
  const isGemma = architecture === 'gemma-embedding';
  const isPostNormed = ['bert', 'nomic-bert', 'jina-bert-v2'].includes(architecture);
  const epsilon = number(`attention.layer_norm_${isGemma ? 'rms_' : ''}epsilon`);
  const window = number('attention.sliding_window');

  const biased = (name: string, y: Row): Row => {
    const bias = has(`${name}.bias`) ? tensor(`${name}.bias`) : undefined;
    return bias === undefined ? y : y.map((value, i) => value + bias[i]!);
  };
  const product = (name: string, x: Row): Row => {
    const weight = tensor(`${name}.weight`);
    const y = new Float64Array(weight.length / x.length);
    for (let row = 0; row < y.length; row++)
      for (let i = 0; i < x.length; i++) y[row]! += weight[row * x.length + i]! * x[i]!;
    return biased(name, y);
  };
  const norm = (name: string, x: Row): Row => {
    const weight = tensor(`${name}.weight`);
    const mean = isGemma || weight.length < hidden ? 0 : x.reduce((sum, value) => sum + value, 0) / x.length;
    const scale = 1 / Math.sqrt(x.reduce((sum, value) => sum + (value - mean) ** 2, 0) / x.length + epsilon);
    return biased(
      name,
      x.map((value, i) => (value - mean) * scale * weight[i]!),
    );
  };
  const added = (a: Row, b: Row): Row => a.map((value, i) => value + b[i]!);

  /** Layers that see a window: of six layers of gemma all but the last, of three of ModernBERT all but the first. */
  const isSlidingWindow = (layer: number): boolean => window > 0 && (isGemma ? layer % 6 !== 5 : layer % 3 !== 0);
  const slopeOf = (head: number): number => {
    if (architecture !== 'jina-bert-v2') return 0;
    const whole = 2 ** Math.floor(Math.log2(heads));
    return head < whole ? 2 ** ((-8 * (head + 1)) / whole) : 2 ** ((-4 * (2 * (head - whole) + 1)) / whole);
  };
  const rotated = (head: Row, position: number, layer: number): Row => {
    if (architecture === 'bert' || architecture === 'jina-bert-v2') return head;
    const base = isSlidingWindow(layer) ? number('rope.freq_base_swa', 10_000) : number('rope.freq_base', 10_000);
    const half = head.length / 2;
    const y = head.slice();
    for (let j = 0; j < half; j++) {
      const angle = position * base ** (-j / half);
      y[j] = head[j]! * Math.cos(angle) - head[j + half]! * Math.sin(angle);
      y[j + half] = head[j]! * Math.sin(angle) + head[j + half]! * Math.cos(angle);
    }
    return y;
  };
  const attend = (layer: number, xs: readonly Row[]): Row[] => {
    const block = `blk.${layer}`;
    const rows = xs.map((x, position) => {
      const qkv = has(`${block}.attn_qkv.weight`)
        ? product(`${block}.attn_qkv`, x)
        : Float64Array.from(['q', 'k', 'v'].flatMap((one) => [...product(`${block}.attn_${one}`, x)]));
      const dim = qkv.length / (heads + 2 * kvHeads);
      const headOf = (i: number) => qkv.slice(i * dim, (i + 1) * dim);
      const headAt = (i: number, name: string) => {
        const own = has(`${block}.${name}.weight`) ? norm(`${block}.${name}`, headOf(i)) : headOf(i);
        return rotated(own, position, layer);
      };
      return {
        queries: Array.from({ length: heads }, (_, i) => headAt(i, 'attn_q_norm')),
        keys: Array.from({ length: kvHeads }, (_, i) => headAt(heads + i, 'attn_k_norm')),
        values: Array.from({ length: kvHeads }, (_, i) => headOf(heads + kvHeads + i)),
      };
    });
    const reach = isSlidingWindow(layer) ? Math.floor(window / 2) : Number.POSITIVE_INFINITY;
    return rows.map(({ queries }, position) => {
      const attended = queries.flatMap((q, head) => {
        const kvHead = Math.floor(head / (heads / kvHeads));
        const seen = rows.flatMap((row, at) => (Math.abs(at - position) <= reach ? [{ row, at }] : []));
        const scores = seen.map(({ row, at }) => {
          const dot = row.keys[kvHead]!.reduce((sum, value, i) => sum + value * q[i]!, 0);
          return dot / Math.sqrt(q.length) - slopeOf(head) * Math.abs(at - position);
        });
        const largest = Math.max(...scores);
        const parts = scores.map((score) => Math.exp(score - largest));
        const total = parts.reduce((sum, part) => sum + part, 0);
        const out = new Float64Array(q.length);
        for (const [i, { row }] of seen.entries())
          for (let e = 0; e < out.length; e++) out[e]! += (parts[i]! / total) * row.values[kvHead]![e]!;
        return [...out];
      });
      return product(`${block}.attn_output`, Float64Array.from(attended));
    });
  };

  const geluOf = (value: number): number => (geluTable ? fromHalf(toHalf(gelu(fromHalf(toHalf(value))))) : gelu(value));
  const activation = architecture === 'nomic-bert' ? silu : geluOf;
  const mlp = (layer: number, x: Row): Row => {
    const block = `blk.${layer}`;
    const up = product(`${block}.ffn_up`, x);
    if (architecture === 'bert') return product(`${block}.ffn_down`, up.map(geluOf));
    const gate = has(`${block}.ffn_gate.weight`) ? product(`${block}.ffn_gate`, x) : up.slice(0, up.length / 2);
    const other = has(`${block}.ffn_gate.weight`) ? up : up.slice(up.length / 2);
    return product(
      `${block}.ffn_down`,
      gate.map((value, i) => activation(value) * other[i]!),
    );
  };

  const embedding = tensor('token_embd.weight');
  let xs = tokens.map((id, position) => {
    const x = embedding.slice(id * hidden, (id + 1) * hidden).map((value) => value * (isGemma ? Math.sqrt(hidden) : 1));
    if (has('token_types.weight')) for (let i = 0; i < hidden; i++) x[i]! += tensor('token_types.weight')[i]!;
    if (has('position_embd.weight'))
      for (let i = 0; i < hidden; i++) x[i]! += tensor('position_embd.weight')[position * hidden + i]!;
    return has('token_embd_norm.weight') ? norm('token_embd_norm', x) : x;
  });
  for (let layer = 0; layer < number('block_count'); layer++) {
    const block = `blk.${layer}`;
    const before = (name: string, x: Row) => (has(`${block}.${name}.weight`) ? norm(`${block}.${name}`, x) : x);
    if (isPostNormed) {
      const attended = attend(layer, xs);
      xs = xs.map((x, row) => norm(`${block}.attn_output_norm`, added(x, attended[row]!)));
      xs = xs.map((x) => norm(`${block}.layer_output_norm`, added(x, mlp(layer, x))));
      continue;
    }
    const attended = attend(
      layer,
      xs.map((x) => before('attn_norm', x)),
    );
    xs = xs.map((x, row) => added(x, before('post_attention_norm', attended[row]!)));
    xs = xs.map((x) => added(x, before('post_ffw_norm', mlp(layer, before('ffn_norm', x)))));
  }
  if (has('output_norm.weight')) xs = xs.map((x) => norm('output_norm', x));
  for (const name of ['dense_2', 'dense_3']) if (has(`${name}.weight`)) xs = xs.map((x) => product(name, x));
  return xs;
}
