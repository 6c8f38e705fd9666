import { type Argument, type KernelContract, requiredElements } from '../../../src/executor/device/contract.js';
import type { Dtype } from '../../../src/executor/device/device.js';
import { type Device, type DeviceBuffer, DTYPE_BYTES } from '../../../src/executor/device/device.js';
import type { Sizes } from '../../../src/executor/device/tolerance.js';
import { type LaunchArguments, LaunchPlanRecorder } from '../../../src/executor/kernels/launch-plan.js';

export type TypedArray = Float32Array | Int32Array | Uint16Array | Uint8Array;

/** Contents of the buffers and values of the scalars. A buffer the kernel writes whole may be left out. */
export type TestArguments<A extends readonly Argument[]> = {
  readonly [K in A[number] as K['name']]?: K['kind'] extends 'buffer' ? TypedArray : number;
};

/** Contents of each buffer after the launch. */
export type Buffers = Readonly<Record<string, TypedArray>>;

const GUARD_BYTES = 256;
// NaN in every float type and -1 as an integer: what is read past a buffer's end shows in the result.
const GUARD = 0xff;

interface Guarded {
  readonly name: string;
  readonly access: 'in' | 'out' | 'inout';
  readonly dtype: Dtype;
  readonly address: number;
  readonly before: Uint8Array;
}

/**
 * Runs a kernel once on buffers that lie between guard bytes. Memory the kernel is to write whole starts as NaN.
 *
 * @throws Error when a guard or a buffer that is only read has changed
 */
export async function launch<const A extends readonly Argument[]>(
  device: Device,
  contract: KernelContract<A>,
  values: TestArguments<A>,
  dimensions: Sizes = {},
): Promise<Buffers> {
  const given = values as Readonly<Record<string, TypedArray | number | undefined>>;
  const sizes = new Map(Object.entries(sizesOf(contract, values, dimensions)));
  const guarded: Guarded[] = [];
  const bound: Record<string, DeviceBuffer | number> = {};
  for (const argument of contract.arguments) {
    const value = given[argument.name];
    if (argument.kind === 'scalar') {
      bound[argument.name] = value as number;
      continue;
    }
    const content = value as TypedArray | undefined;
    const elements = content?.length ?? requiredElements(argument, sizes);
    const bytes = elements * DTYPE_BYTES[argument.dtype];
    const before = new Uint8Array(2 * GUARD_BYTES + bytes).fill(GUARD);
    if (content) before.set(new Uint8Array(content.buffer, content.byteOffset, content.byteLength), GUARD_BYTES);
    const address = device.native.allocate(before.length);
    device.native.write(address, before);
    bound[argument.name] = { address: address + GUARD_BYTES, dtype: argument.dtype, elements };
    guarded.push({ name: argument.name, access: argument.access, dtype: argument.dtype, address, before });
  }
  try {
    const recorder = new LaunchPlanRecorder(device, 0);
    recorder.launch(contract, bound as LaunchArguments<A>, dimensions);
    const nothing = new Uint8Array(0);
    await device.native.run({
      plan: recorder.finish(),
      counts: new Int32Array(0),
      recurring: false,
      input: nothing,
      deviceInput: 0,
      output: nothing,
      deviceOutput: 0,
    });
    return Object.fromEntries(guarded.map((buffer) => [buffer.name, readChecked(device, contract.name, buffer)]));
  } finally {
    for (const { address } of guarded) device.native.release(address);
  }
}

/** Scalars and dimensions of a launch. */
export function sizesOf(contract: KernelContract, values: object, dimensions: Sizes): Sizes {
  const scalars = contract.arguments.filter((argument) => argument.kind === 'scalar').map(({ name }) => name);
  const given = values as Readonly<Record<string, number>>;
  return { ...dimensions, ...Object.fromEntries(scalars.map((name) => [name, given[name]!])) };
}

function readChecked(device: Device, kernel: string, buffer: Guarded): TypedArray {
  const after = device.native.read(buffer.address, buffer.before.length);
  const end = after.length - GUARD_BYTES;
  for (let i = 0; i < after.length; i++) {
    if (i === GUARD_BYTES && buffer.access !== 'in') i = end;
    if (i < after.length && after[i] !== buffer.before[i]) {
      throw new Error(`${kernel} wrote byte ${i - GUARD_BYTES} of ${buffer.name} (${end - GUARD_BYTES} bytes)`);
    }
  }
  const content = after.slice(GUARD_BYTES, end).buffer;
  if (buffer.dtype === 'f32') return new Float32Array(content);
  if (buffer.dtype === 'u8') return new Uint8Array(content);
  return buffer.dtype === 'i32' ? new Int32Array(content) : new Uint16Array(content);
}
