import type { Dtype } from './device.js';
import { evaluate } from './expression.js';
import type { Tolerance } from './tolerance.js';

/**
 * A kernel's contract: the single statement of what it takes and how it is launched. Argument packing, the checks
 * before a launch, the tests' generators and the documentation all come from it; at load it is held against the code
 * object's own metadata.
 */
export interface KernelContract<A extends readonly Argument[] = readonly Argument[]> {
  /** Symbol in the code object. */
  readonly name: string;
  /** File under `kernels/`: in `twins/` when nothing launches it, and tests alone hold others against it. */
  readonly source: string;
  /** Which devices launch it, if not all do. `test/executor/launched-kernels.test.ts` holds this against every plan. */
  readonly on?: DeviceClass | 'gpu' | readonly DeviceClass[];
  /** True if it is written in a CPU's vector instructions: then it is built for no GPU and no simulated one, for tests neither. */
  readonly isCpuOnly?: boolean;
  /** True if it needs the threads of a block: then it is not built for the host, for tests neither. */
  readonly needsBlock?: boolean;
  /** Threads of a block, where they are not the device's; and LDS that is asked for at the launch. */
  readonly threads?: number;
  readonly dynamicSharedBytes?: number;
  /** One line: the formula. */
  readonly summary: string;
  /** In the kernel's order. */
  readonly arguments: A;
  /** Blocks in x, y and z. */
  readonly grid: readonly GridDim[];
  /** [size, divisor]: sizes that the kernel takes only as whole multiples. */
  readonly multiples?: readonly (readonly [size: string, divisor: string])[];
  /**
   * Pairs of buffers that may be one memory, element on element. No other buffer that is written may overlap another
   * argument.
   */
  readonly inPlace?: readonly (readonly [string, string])[];
  /** Offsets that the kernel computes in 32 bits, beside those that {@link INDEX_RULE} covers. */
  readonly offsets32?: readonly string[];
  /** In which order it adds; default: it adds up nothing, or only whole numbers. */
  readonly order?: string;
  /** Largest |difference| from the float64 reference that the tests accept. */
  readonly tolerance: Tolerance;
}

/** Devices that differ in which kernels they launch: Hopper's GPUs (sm_90) have matrix instructions of their own. */
export type DeviceClass = 'host' | 'portable' | 'hopper';

export type Argument = BufferArgument | ScalarArgument;

export interface BufferArgument<N extends string = string> {
  readonly kind: 'buffer';
  readonly name: N;
  readonly dtype: Dtype;
  /** Sizes of its dimensions, outermost first, as expressions over scalars and launch dimensions. */
  readonly shape: readonly string[];
  readonly access: 'in' | 'out' | 'inout';
  /** Its address is a multiple of this many bytes; default: of an element's. */
  readonly align?: number;
  /** Scalar that says how many elements lie between the starts of two rows; default: rows follow each other. */
  readonly stride?: string;
}

export interface ScalarArgument<N extends string = string> {
  readonly kind: 'scalar';
  readonly name: N;
  readonly dtype: 'i32' | 'f32';
}

/** ceil(of / per) blocks. `per` may be `waves`: the waves of a block, or `block`: its threads. */
export interface GridDim {
  readonly of: string;
  readonly per?: number | 'waves' | 'block';
  /** In place of `per` on the host, whose blocks are one thread. */
  readonly perOnHost?: number;
  /** The most blocks. */
  readonly most?: number;
}

const buffer =
  (access: BufferArgument['access']) =>
  <const N extends string>(name: N, dtype: Dtype, ...shape: string[]): BufferArgument<N> => ({
    kind: 'buffer',
    name,
    dtype,
    shape,
    access,
  });

/** A buffer the kernel only reads. */
export const input = buffer('in');
/** A buffer the kernel writes whole. */
export const output = buffer('out');
/** A buffer the kernel reads and writes, or writes in part. */
export const inout = buffer('inout');
/** The buffer, at an address that is a multiple of `align` bytes: the kernel loads as many at a time. */
export const aligned = <B extends BufferArgument>(align: number, argument: B): B => ({ ...argument, align });
/** The buffer, its rows `stride` elements apart. */
export const rowsApart = <B extends BufferArgument>(stride: string, argument: B): B => ({ ...argument, stride });
/** A 32-bit integer. */
export const i32 = <const N extends string>(name: N): ScalarArgument<N> => ({ kind: 'scalar', name, dtype: 'i32' });
/** A 32-bit float. */
export const f32 = <const N extends string>(name: N): ScalarArgument<N> => ({ kind: 'scalar', name, dtype: 'f32' });

/** A contract with the literal types of its argument names, so that a launch with a wrong name does not compile. */
export function defineKernel<const A extends readonly Argument[]>(contract: KernelContract<A>): KernelContract<A> {
  return contract;
}

/** Contracts of a kernel's variants, each made once: a plan names them for every launch. */
export function variants<A extends readonly (string | number | undefined | readonly string[])[], K>(
  define: (...of: A) => K,
): (...of: A) => K {
  const made = new Map<string, K>();
  return (...of) => {
    const key = of.join();
    let contract = made.get(key);
    if (contract === undefined) {
      contract = define(...of);
      made.set(key, contract);
    }
    return contract;
  };
}

/** True if nothing but tests launches the kernel: then it is in no package, and no device must have it. */
export function isTwin({ source }: Pick<KernelContract, 'source'>): boolean {
  return source.startsWith('twins/');
}

/** True if devices of this class launch the kernel. */
export function isOn({ on }: Pick<KernelContract, 'on'>, device: DeviceClass): boolean {
  if (on === undefined) return true;
  if (on === 'gpu') return device !== 'host';
  return typeof on === 'string' ? on === device : on.includes(device);
}

/** The kernels that something launches on a device of this class: what such a device must have. */
export function launchedOn<C extends KernelContract>(contracts: readonly C[], device: DeviceClass): readonly C[] {
  return contracts.filter((contract) => !isTwin(contract) && isOn(contract, device));
}

/** Bytes an argument takes in the kernel's parameter list. */
export function argumentBytes(argument: Argument): number {
  return argument.kind === 'buffer' ? 8 : 4;
}

/** 32-bit index computations of kernels, in words and as the bound that a launch is checked against: see {@link checkIndices}. */
export const INDEX_RULE =
  'The start of a row is computed in 64 bits. Below 2³¹ are: each size and scalar, the elements of a row (all dimensions ' +
  'but the outermost), what a grid divides, and the offsets named below. Grids have at most 65535 blocks in y and z, ' +
  'and fewer than 2³² threads in x.';
const INDEX_END = 2 ** 31;

/** Elements a buffer argument must at least have, for the given values of scalars and dimensions. */
export function requiredElements(argument: BufferArgument, values: ReadonlyMap<string, number>): number {
  const { shape } = argument;
  const size = (d: number): number => Math.max(0, evaluate(shape[d] as string, values));
  if (argument.stride === undefined) {
    let elements = 1;
    for (let d = 0; d < shape.length; d++) elements *= size(d);
    return elements;
  }
  const [rows, columns] = [size(0), size(1)];
  return rows === 0 ? 0 : (rows - 1) * evaluate(argument.stride, values) + columns;
}

/** Throws unless everything that the kernel computes in 32 bits fits: {@link INDEX_RULE}. */
export function checkIndices(contract: KernelContract, values: ReadonlyMap<string, number>): void {
  const tooLarge = (what: string, value: number) =>
    new RangeError(`${contract.name}: ${what} = ${value} does not fit in 31 bits`);
  for (const [name, value] of values) if (value >= INDEX_END && Number.isInteger(value)) throw tooLarge(name, value);
  for (const argument of contract.arguments) {
    if (argument.kind === 'scalar') continue;
    let row = 1;
    for (let d = 1; d < argument.shape.length; d++) row *= evaluate(argument.shape[d] as string, values);
    if (row >= INDEX_END) throw tooLarge(`a row of ${argument.name}, ${argument.shape.slice(1).join(' · ')}`, row);
  }
  for (const offset of contract.offsets32 ?? []) {
    const value = evaluate(offset, values);
    if (value >= INDEX_END) throw tooLarge(offset, value);
  }
}

/** Throws unless sizes are the multiples that the contract states, and rows that lie apart do not overlap. */
export function checkSizes(contract: KernelContract, values: ReadonlyMap<string, number>): void {
  for (const [size, divisor] of contract.multiples ?? []) {
    const [n, by] = [evaluate(size, values), evaluate(divisor, values)];
    if (n % by !== 0) throw new RangeError(`${contract.name}: ${size} = ${n} is not a multiple of ${divisor} = ${by}`);
  }
  for (const argument of contract.arguments) {
    if (argument.kind === 'scalar' || argument.stride === undefined) continue;
    const [stride, row] = [evaluate(argument.stride, values), evaluate(argument.shape[1]!, values)];
    if (stride < row) {
      throw new RangeError(`${contract.name}: rows of ${argument.name} are ${stride} apart and ${row} long`);
    }
  }
}
