import { PREDICTION, unusedTensors } from '../../lib/gguf/harmless.js';
import type { GgufModel, GgufTensor } from '../../lib/gguf/reader.js';
import { RocmForgeError } from '../../shared/errors.js';
import { BLOCK_TYPES, type BlockType, type WeightFloatType } from '../kernels/index.js';

/** A weight matrix of a file: checked, and not on any device yet. */
export interface MatrixRef {
  readonly tensor: GgufTensor;
  readonly type: WeightFloatType | BlockType;
  readonly rows: number;
  readonly columns: number;
  /** Number of such matrices behind each other, one an expert; undefined: it is one. */
  readonly experts?: number;
}

/** Some columns of a file's matrix: its rows lie apart. */
export interface ColumnPart extends GgufTensor {
  /** Bytes in the file from the start of a row to that of the next one. */
  readonly pitch: number;
}

/** The bytes between rows of a tensor that is some columns of a matrix; undefined of any other, which lies in one piece. */
export const pitchOf = (tensor: GgufTensor | ColumnPart): number | undefined =>
  'pitch' in tensor ? tensor.pitch : undefined;

/** An f32 vector of a file. */
export interface VectorRef {
  readonly tensor: GgufTensor;
  readonly length: number;
}

/** A bias of `length` rows of products: a file's vector, or zeros where it has none. */
export type BiasRef = VectorRef | { readonly tensor?: undefined; readonly length: number };

const FLOAT_TYPES: Readonly<Partial<Record<string, WeightFloatType>>> = { F32: 'f32', F16: 'f16', BF16: 'bf16' };

/** Types of weight matrices that there are kernels for, as GGUF files name them. */
export const MATRIX_TYPES: readonly string[] = [
  ...Object.keys(FLOAT_TYPES),
  ...BLOCK_TYPES.map((type) => type.toUpperCase()),
];

/**
 * A file's tensors as a family asks for them: by name and shape. What nobody asks for is refused, because a model that
 * has more than is computed would answer, fluently, something else.
 */
export class TensorCatalog {
  private readonly asked = new Set<string>();

  constructor(private readonly file: GgufModel) {}

  has(name: string): boolean {
    return this.file.tensors.has(name);
  }

  /**
   * A matrix of exactly this shape.
   *
   * @throws RocmForgeError `GGUF_INVALID` when it is missing or shaped otherwise; `MODEL_UNSUPPORTED` when its element type
   *         has no kernels
   */
  matrix(name: string, rows: number, columns: number): MatrixRef {
    return this.typed(name, [columns, rows]);
  }

  /** A matrix of exactly this shape for each of `experts`. Throws as {@link matrix} does. */
  matrices(name: string, experts: number, rows: number, columns: number): MatrixRef {
    return { ...this.typed(name, [columns, rows, experts]), experts };
  }

  /** A matrix of exactly this shape that is F32: a router, whose scores no rounding may move. Throws as {@link matrix} does. */
  floats(name: string, rows: number, columns: number): MatrixRef {
    const matrix = this.matrix(name, rows, columns);
    if (matrix.type === 'f32') return matrix;
    throw new RocmForgeError('MODEL_UNSUPPORTED', `tensor ${name} is ${matrix.tensor.type}; routers must be F32`, {
      tensor: name,
    });
  }

  private typed(name: string, dims: readonly [columns: number, rows: number, ...number[]]): MatrixRef {
    const tensor = this.tensor(name, dims);
    const [columns, rows] = dims;
    const type = FLOAT_TYPES[tensor.type] ?? BLOCK_TYPES.find((block) => block.toUpperCase() === tensor.type);
    if (type !== undefined) return { tensor, type, rows, columns };
    throw new RocmForgeError(
      'MODEL_UNSUPPORTED',
      `tensor ${name} is ${tensor.type}, which is not supported; supported are ${MATRIX_TYPES.join(', ')}`,
      { tensor: name },
    );
  }

  /** An f32 vector of exactly this length. Throws as {@link matrix} does. */
  vector(name: string, length: number): VectorRef {
    return this.floatsOf(name, [length]);
  }

  /** An f32 vector of exactly this length for each of `experts`, behind each other. Throws as {@link matrix} does. */
  vectors(name: string, experts: number, length: number): VectorRef {
    return this.floatsOf(name, [length, experts]);
  }

  /** Number of vectors that a tensor of `[n, length]` has; undefined for one of `[length]`, and where there is none of that name. */
  vectorCount(name: string): number | undefined {
    return this.file.tensors.get(name)?.dims[1];
  }

  private floatsOf(name: string, dims: readonly number[]): VectorRef {
    const tensor = this.tensor(name, dims);
    const length = dims.reduce((product, size) => product * size, 1);
    if (tensor.type === 'F32') return { tensor, length };
    throw new RocmForgeError('MODEL_UNSUPPORTED', `tensor ${name} is ${tensor.type}; norms and biases must be F32`, {
      tensor: name,
    });
  }

  /**
   * To be called when the family has asked for all that it needs.
   *
   * @throws RocmForgeError `MODEL_UNSUPPORTED` naming a tensor that nothing asked for and that is not known to be harmless
   */
  refuseUnread(): void {
    const unread = wantedTensors(this.file).filter(({ name }) => !this.asked.has(name));
    const [first] = unread;
    if (first === undefined) return;
    const others = unread.length === 1 ? '' : ` and ${unread.length - 1} more`;
    throw new RocmForgeError(
      'MODEL_UNSUPPORTED',
      `${this.file.name}: nothing here uses tensor ${first.name} [${first.dims.join(', ')}]${others}: without it the model ` +
        'may compute something else',
      { tensor: first.name },
    );
  }

  private tensor(name: string, dims: readonly number[]): GgufTensor {
    this.asked.add(name);
    const tensor = this.file.tensors.get(name);
    if (tensor === undefined) {
      throw new RocmForgeError('GGUF_INVALID', `${this.file.name} holds no tensor ${name}`, { tensor: name });
    }
    if (sizesOf(tensor.dims) !== sizesOf(dims)) {
      throw new RocmForgeError(
        'GGUF_INVALID',
        `tensor ${name} is [${tensor.dims.join(', ')}], the model's parameters say [${dims.join(', ')}]`,
        { tensor: name },
      );
    }
    return tensor;
  }
}

/** Some writers leave out last dimensions of one. */
const sizesOf = (dims: readonly number[]): string => dims.join().replace(/(,1)+$/, '');

/** The tensors that are brought to a device: all that are not known to be of no use. */
export function wantedTensors(file: GgufModel, predicts = false): GgufTensor[] {
  const ignored = unusedTensors(file).filter(({ why }) => !predicts || why !== PREDICTION);
  const unused = new Set(ignored.flatMap(({ tensors }) => tensors));
  return [...file.tensors.values()].filter((tensor) => !unused.has(tensor));
}

/** Elements of all tensors. */
export function parameterCount(file: GgufModel): number {
  let sum = 0;
  for (const tensor of file.tensors.values()) sum += tensor.dims.reduce((product, size) => product * size, 1);
  return sum;
}

/** Bytes of the tensors that are brought to a device. */
export function tensorBytes(file: GgufModel): number {
  return wantedTensors(file).reduce((sum, { bytes }) => sum + bytes, 0);
}
