import type { NativeDevice, NativeGridDim, NativeLaunch } from '../device/addon.js';
import {
  type Argument,
  checkIndices,
  checkSizes,
  type GridDim,
  type KernelContract,
  requiredElements,
} from '../device/contract.js';
import { type Device, type DeviceBuffer, DTYPE_BYTES } from '../device/device.js';
import { evaluate } from '../device/expression.js';

/** Values of a launch's arguments, by name. */
export type LaunchArguments<A extends readonly Argument[]> = {
  readonly [K in A[number] as K['name']]: K['kind'] extends 'buffer' ? DeviceBuffer : number;
};

/** The values that a contract's launches take. */
export type ValuesOf<K extends { readonly arguments: readonly Argument[] }> = LaunchArguments<K['arguments']>;

/** {@link LaunchPlanRecorder.launch}, or what adds a condition of its own. */
export type Launch = LaunchPlanRecorder['launch'];

/** Rows of one step, and where the kernels read how many there are. */
export interface Rows {
  readonly count: StepCount;
  /** `[1]` i32 */
  readonly present: DeviceBuffer;
}

/** A number that each step brings, at most `max`. */
export interface StepCount {
  readonly index: number;
  readonly max: number;
  /** Units counted before this number are left out, and those after `max` more; default: 0. */
  readonly first?: number;
  /** Blocks for each counted unit; `max` is the limit of all of them. Default: 1. */
  readonly times?: number;
}

/** Launched only in steps whose count lies in [atLeast, atMost]. */
export interface LaunchCondition {
  readonly count: StepCount;
  readonly atLeast?: number;
  readonly atMost?: number;
}

/**
 * Records launches once, each checked against its contract, for native code to replay.
 *
 * Pointers and scalars are fixed here. What varies from step to step is the grid, through step counts, and the contents
 * of the buffers.
 */
export class LaunchPlanRecorder {
  private readonly launches: NativeLaunch[] = [];
  private captureFrom = 0;
  private secondPart = 0;
  private readonly logs = process.env.ROCMFORGE_LOG_LAUNCHES === '1';

  /** @param host device of {@link launchOnHost} */
  constructor(
    private readonly device: Device,
    private readonly countSlots: number,
    private readonly host?: Device,
  ) {}

  /**
   * Adds a launch.
   *
   * @param dimensions sizes that shapes and grid name and that are no scalar argument
   * @param when in which steps it is launched; default: in all
   * @throws RangeError when a buffer is too small, of another type, less aligned or shared otherwise than the contract
   *   says, or when sizes are none that it takes
   */
  launch<const A extends readonly Argument[]>(
    contract: KernelContract<A>,
    values: LaunchArguments<A>,
    dimensions: Readonly<Record<string, number | StepCount>> = {},
    when?: LaunchCondition,
  ): void {
    this.record(this.device, contract, values, dimensions, when);
  }

  /**
   * Adds a launch of a host kernel: it begins when the launches before it have ended, and those behind it wait for it. All its buffers are
   * in the host's memory.
   *
   * @param options.when as in {@link launch}
   * @param options.behindMark it waits for launches up to the latest with this {@link mark} alone
   * @throws as {@link launch}
   */
  launchOnHost<const A extends readonly Argument[]>(
    contract: KernelContract<A>,
    values: LaunchArguments<A>,
    dimensions: Readonly<Record<string, number | StepCount>> = {},
    { when, behindMark }: { readonly when?: LaunchCondition | undefined; readonly behindMark?: number } = {},
  ): void {
    if (this.host === undefined) throw new Error(`${contract.name}: the plan has no host device`);
    this.record(this.host, contract, values, dimensions, when);
    if (behindMark !== undefined) this.amend({ behindMark });
  }

  /** Marks the latest launch, for launches on the host that wait for no later one. */
  mark(mark: number): void {
    this.amend({ mark });
  }

  private amend(fields: Partial<NativeLaunch>): void {
    this.launches.push({ ...(this.launches.pop() as NativeLaunch), ...fields });
  }

  private record<const A extends readonly Argument[]>(
    device: Device,
    contract: KernelContract<A>,
    values: LaunchArguments<A>,
    dimensions: Readonly<Record<string, number | StepCount>>,
    when: LaunchCondition | undefined,
  ): void {
    device.checkKernel(contract);
    const sizes = new Map<string, number>();
    for (const [name, size] of Object.entries(dimensions)) sizes.set(name, typeof size === 'number' ? size : size.max);
    const byName = values as Readonly<Record<string, DeviceBuffer | number>>;
    for (const argument of contract.arguments) {
      if (argument.kind === 'scalar') sizes.set(argument.name, byName[argument.name] as number);
    }
    checkIndices(contract, sizes);
    checkSizes(contract, sizes);
    const required = contract.arguments.map((one) => (one.kind === 'buffer' ? requiredElements(one, sizes) : 0));
    checkOverlaps(contract, byName, required);
    const words = new BigUint64Array(contract.arguments.length);
    const view = new DataView(words.buffer);
    contract.arguments.forEach((argument, i) => {
      const value = byName[argument.name];
      if (argument.kind === 'buffer') {
        checkBuffer(contract, argument, value as DeviceBuffer, required[i] as number);
        setAddress(view, i * 8, (value as DeviceBuffer).address);
      } else if (argument.dtype === 'f32') {
        view.setFloat32(i * 8, value as number, true);
      } else {
        if (!Number.isInteger(value))
          throw new RangeError(`${contract.name}: ${argument.name} = ${value} is not an integer`);
        view.setInt32(i * 8, value as number, true);
      }
    });
    const grid = [0, 1, 2].map((d) => gridDim(device, contract, d, sizes, dimensions));
    this.launches.push({
      kernel: contract.name,
      grid: grid as [NativeGridDim, NativeGridDim, NativeGridDim],
      arguments: words,
      ...(device === this.host && { onHost: true }),
      ...(this.logs && { description: describe(contract, byName, sizes) }),
      ...(when !== undefined && {
        when: { count: when.count.index, atLeast: when.atLeast ?? 0, atMost: when.atMost ?? 2 ** 31 - 1 },
      }),
    });
  }

  /** Launches recorded so far depend on counts that do not recur: they stay outside of captured graphs. */
  captureFromHere(): void {
    this.captureFrom = this.launches.length;
  }

  /** Launches recorded from now on form the second part of {@link finishPart}. */
  secondPartFromHere(): void {
    this.secondPart = this.launches.length;
  }

  /** The kernels recorded, in order. */
  get kernels(): readonly string[] {
    return this.launches.map(({ kernel }) => kernel);
  }

  /** Ends the recording. @returns the plan's number on the device, to be released when it has run for the last time */
  finish(): number {
    return this.create(this.launches, this.captureFrom);
  }

  /** Launches before {@link secondPartFromHere} as a plan, or the rest. None of their steps runs as a graph. */
  finishPart(part: 'first' | 'second'): number {
    const launches = part === 'first' ? this.launches.slice(0, this.secondPart) : this.launches.slice(this.secondPart);
    return this.create(launches, launches.length);
  }

  /** Ends the recording and runs it once, and never again. */
  async run(): Promise<void> {
    const plan = this.finish();
    try {
      await runOnce(this.device, plan);
    } finally {
      this.device.native.releasePlan(plan);
    }
  }

  private create(launches: readonly NativeLaunch[], captureFrom: number): number {
    const { native } = this.device;
    const onHost = launches.some((launch) => launch.onHost === true);
    return native.createPlan(
      launches,
      this.countSlots,
      captureFrom,
      ...(onHost ? [this.host?.native as NativeDevice] : []),
    );
  }
}

/** 64 bits in two halves, as a number of JavaScript becomes whole ones slowly. */
function setAddress(view: DataView, at: number, address: number): void {
  view.setUint32(at, address % 2 ** 32, true);
  view.setUint32(at + 4, Math.floor(address / 2 ** 32), true);
}

function gridDim(
  device: Device,
  { name, grid }: KernelContract,
  d: number,
  sizes: ReadonlyMap<string, number>,
  dimensions: Readonly<Record<string, number | StepCount>>,
): NativeGridDim {
  const dim: GridDim = grid[d] ?? { of: '1' };
  const per = (device.wave === 1 ? dim.perOnHost : undefined) ?? dim.per ?? 1;
  const divisor = per === 'waves' ? device.block / device.wave : per === 'block' ? device.block : per;
  const most = evaluate(dim.of, sizes);
  const blocks = Math.ceil(most / divisor);
  const bound = dimensions[dim.of];
  if (most >= 2 ** 31 || blocks > (d === 0 ? Math.floor(MOST_THREADS / device.block) : MOST_BLOCKS_YZ)) {
    const remedy = typeof bound === 'object' ? '; lower --max-step-tokens' : '';
    throw new RangeError(
      `${name}: a grid of ${blocks} blocks in ${'xyz'[d]}, for ${dim.of} = ${most}, is too large${remedy}`,
    );
  }
  if (typeof bound === 'object') {
    const { index, max, first = 0, times = 1 } = bound;
    return {
      count: index,
      constant: 0,
      divisor,
      first,
      most: Math.min(max, (dim.most ?? blocks) * divisor) / times,
      times,
    };
  }
  return { count: -1, constant: Math.min(most, (dim.most ?? blocks) * divisor), divisor };
}

/** Grid limits of the drivers: threads in x, blocks in y and z. */
const MOST_THREADS = 2 ** 32 - 1;
const MOST_BLOCKS_YZ = 65_535;

/** `x=f32[4, 64]@0x7f00 eps=0.00001`: shapes with the most that a step's counts may be. */
function describe(
  contract: KernelContract,
  values: Readonly<Record<string, DeviceBuffer | number>>,
  sizes: ReadonlyMap<string, number>,
): string {
  const described = contract.arguments.map((argument) => {
    if (argument.kind === 'scalar') return `${argument.name}=${values[argument.name]}`;
    const shape = argument.shape.map((size) => evaluate(size, sizes)).join(', ');
    const { address } = values[argument.name] as DeviceBuffer;
    return `${argument.name}=${argument.dtype}[${shape}]@0x${address.toString(16)}`;
  });
  return described.join(' ');
}

/** Runs a plan without step counts once, with nothing copied. Resolves when it has ended. */
export async function runOnce(device: Device, plan: number): Promise<number> {
  const nothing = new Uint8Array(0);
  return device.native.run({
    plan,
    counts: new Int32Array(0),
    recurring: false,
    input: nothing,
    deviceInput: 0,
    output: nothing,
    deviceOutput: 0,
  });
}

function checkBuffer(
  contract: KernelContract,
  argument: Argument & { kind: 'buffer' },
  value: DeviceBuffer,
  required: number,
): void {
  if (value.dtype !== argument.dtype) {
    throw new RangeError(`${contract.name}: ${argument.name} is ${value.dtype}, the contract says ${argument.dtype}`);
  }
  if (value.elements < required) {
    throw new RangeError(
      `${contract.name}: ${argument.name} [${argument.shape.join(', ')}] needs ${required} elements, has ${value.elements}`,
    );
  }
  const align = argument.align ?? DTYPE_BYTES[argument.dtype];
  if (value.address % align !== 0) {
    throw new RangeError(`${contract.name}: ${argument.name} lies at ${value.address}, not at a multiple of ${align}`);
  }
}

/**
 * Throws when memory that the kernel writes is another argument's, too, and the contract does not allow it.
 *
 * @param required elements of each argument
 */
function checkOverlaps(
  contract: KernelContract,
  values: Readonly<Record<string, DeviceBuffer | number>>,
  required: readonly number[],
): void {
  const ranges = contract.arguments.flatMap((argument, i) => {
    if (argument.kind === 'scalar') return [];
    const { address } = values[argument.name] as DeviceBuffer;
    return [{ argument, start: address, end: address + (required[i] as number) * DTYPE_BYTES[argument.dtype] }];
  });
  for (const a of ranges) {
    for (const b of ranges) {
      // Each pair once.
      if (a === b) break;
      if (a.argument.access === 'in' && b.argument.access === 'in') continue;
      if (Math.max(a.start, b.start) >= Math.min(a.end, b.end)) continue;
      const names = [b.argument.name, a.argument.name];
      const mayShare = (contract.inPlace ?? []).some((pair) => names.every((name) => pair.includes(name)));
      if (mayShare && a.start === b.start) continue;
      throw new RangeError(`${contract.name}: ${names.join(' and ')} overlap`);
    }
  }
}
