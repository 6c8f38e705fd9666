import type { Dtype } from '../device/device.js';
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
  /** File under `kernels/`. */
  readonly source: string;
  /** One line: the formula. */
  readonly summary: string;
  /** In the kernel's order. */
  readonly arguments: A;
  /** Blocks in x, y and z. */
  readonly grid: readonly GridDim[];
  /** Largest |difference| from the float64 reference that the tests accept. */
  readonly tolerance: Tolerance;
}

export type Argument = BufferArgument | ScalarArgument;

export interface BufferArgument<N extends string = string> {
  readonly kind: 'buffer';
  readonly name: N;
  readonly dtype: Dtype;
  /** Sizes of its dimensions, outermost first, as expressions over scalars and launch dimensions. */
  readonly shape: readonly string[];
  readonly access: 'in' | 'out' | 'inout';
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
/** A 32-bit integer. */
export const i32 = <const N extends string>(name: N): ScalarArgument<N> => ({ kind: 'scalar', name, dtype: 'i32' });
/** A 32-bit float. */
export const f32 = <const N extends string>(name: N): ScalarArgument<N> => ({ kind: 'scalar', name, dtype: 'f32' });

/** A contract with the literal types of its argument names, so that a launch with a wrong name does not compile. */
export function defineKernel<const A extends readonly Argument[]>(contract: KernelContract<A>): KernelContract<A> {
  return contract;
}

/** Bytes an argument takes in the kernel's parameter list. */
export function argumentBytes(argument: Argument): number {
  return argument.kind === 'buffer' ? 8 : 4;
}

/** Elements a buffer argument must at least have, for the given values of scalars and dimensions. */
export function requiredElements(argument: BufferArgument, values: ReadonlyMap<string, number>): number {
  return argument.shape.reduce((product, size) => product * Math.max(0, evaluate(size, values)), 1);
}
