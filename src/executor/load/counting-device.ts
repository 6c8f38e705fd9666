import type { NativeDevice, NativeLaunch, NativeLink, NativeLinkOptions, NativeStep } from '../device/addon.js';
import { argumentBytes } from '../device/contract.js';
import { allContracts } from '../kernels/index.js';
import type { ModelContent } from '../model/mapped-model.js';

/** First address that it returns. */
export const COUNTED_BASE = 2 ** 40;
/** From one's to the next one's, of which so many are told apart: devices of one load share no address. */
const APART = 2 ** 42;
const MOST_APART = 1024;
let counted = 0;
/** Alignment of drivers' allocations. */
const ALIGNMENT = 256;

/** Sizes of the arguments of every kernel. */
const KERNELS = new Map(allContracts.map((contract) => [contract.name, contract.arguments.map(argumentBytes)]));

/**
 * A GPU that takes every kernel and launches none: memory is addresses alone, of which it counts how much is allocated, and
 * reads as ones. What a model takes on a GPU is found out by loading it here.
 */
export class CountingDevice implements NativeDevice {
  readonly properties: NativeDevice['properties'] = { description: 'no device', wave: 32, block: 256 };
  private readonly sizes = new Map<number, number>();
  private readonly plans = new Set<number>();
  private readonly captured = new Set<string>();
  private nextAddress = COUNTED_BASE + (counted++ % MOST_APART) * APART;
  private nextPlan = 0;
  private instantiated = 0;
  private usedBytes = 0;

  /** @param bytes of memory */
  constructor(private readonly bytes: number) {}

  /** Bytes, plans and graphs that were not given back. */
  get held(): { readonly bytes: number; readonly plans: number; readonly graphs: number } {
    return { bytes: this.usedBytes, plans: this.plans.size, graphs: this.captured.size };
  }

  kernel(name: string): number[] {
    const sizes = KERNELS.get(name);
    if (sizes === undefined) throw new Error(`no kernel ${name}`);
    return sizes;
  }

  allocate(bytes: number): number {
    // At least a byte more, so that the end of one is never the beginning of the next.
    const size = Math.ceil((bytes + 1) / ALIGNMENT) * ALIGNMENT;
    if (this.usedBytes + size > this.bytes) throw new Error(`no room for ${bytes} bytes`);
    const address = this.nextAddress;
    this.nextAddress += size;
    this.usedBytes += size;
    this.sizes.set(address, size);
    return address;
  }

  release(address: number): void {
    const size = this.sizes.get(address);
    if (size === undefined) throw new Error('released what is not allocated');
    this.sizes.delete(address);
    this.usedBytes -= size;
  }

  /** The host's memory is not counted. */
  allocatePinned(bytes: number): number {
    const address = this.nextAddress;
    this.nextAddress += Math.ceil((bytes + 1) / ALIGNMENT) * ALIGNMENT;
    return address;
  }

  releasePinned(_address: number): void {}

  write(_address: number, _data: Uint8Array): void {}

  read(_address: number, bytes: number): Uint8Array {
    return ones(bytes);
  }

  upload(_address: number, _hostAddress: number, _bytes: number, _rowBytes?: number, _pitch?: number): void {}

  memory(): { readonly freeBytes: number; readonly totalBytes: number } {
    return { freeBytes: this.bytes - this.usedBytes, totalBytes: this.bytes };
  }

  copies() {
    return { in: 0, inBytes: 0, out: 0, outBytes: 0 };
  }

  createPlan(_launches: readonly NativeLaunch[], _countSlots: number, _captureFrom: number): number {
    this.plans.add(this.nextPlan);
    return this.nextPlan++;
  }

  releasePlan(plan: number): void {
    if (!this.plans.delete(plan)) throw new Error('released no plan');
    for (const graph of [...this.captured]) if (graph.startsWith(`${plan}:`)) this.captured.delete(graph);
  }

  capture(plan: number, counts: Int32Array): void {
    this.instantiated += 1;
    this.captured.add(`${plan}:${counts.join()}`);
  }

  graphs(): number {
    return this.instantiated;
  }

  timeLaunches(_plan: number, _counts: Int32Array): Float64Array {
    return new Float64Array(0);
  }

  async run(_step: NativeStep): Promise<number> {
    return 0;
  }

  canReach(_other: NativeDevice): boolean {
    return true;
  }

  reserve(_inputBytes: number, _outputBytes: number): void {}

  signal(_address: number, _word: number): void {}

  linkTo(_other: NativeDevice, _options: NativeLinkOptions): NativeLink {
    return { close: () => undefined };
  }
}

/** Weights that take their room and are never read. */
export const UNREAD: ModelContent = {
  address: () => 0,
  read: async () => 0n,
  largest: { address: 0, bytes: 0 },
  check: () => undefined,
  close: () => undefined,
};

/** Kinds of devices without weights. */
const actual = new WeakMap<NativeDevice, NativeDevice>();
const actualOf = (native: NativeDevice): NativeDevice => actual.get(native) ?? native;

/**
 * The same device with weights that take their room, are not brought and read as ones.
 *
 * @param isBrought by its address in the host's memory, true of what is brought all the same
 */
export function withoutWeights(
  native: NativeDevice,
  isBrought: (hostAddress: number) => boolean = () => false,
): NativeDevice {
  const unread: Partial<NativeDevice> = {
    upload: (address, hostAddress, ...rest) => {
      if (isBrought(hostAddress)) native.upload(address, hostAddress, ...rest);
    },
    read: (_address, bytes) => ones(bytes),
    canReach: (other) => native.canReach(actualOf(other)),
    linkTo: (other, options) => native.linkTo(actualOf(other), options),
  };
  const proxy = new Proxy(native, {
    get: (target, name: keyof NativeDevice) => {
      const value = unread[name] ?? target[name];
      // The native device's methods take no other for `this`.
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
  actual.set(proxy, native);
  return proxy;
}

/** As f32. */
function ones(bytes: number): Uint8Array {
  return new Uint8Array(new Float32Array(Math.ceil(bytes / 4)).fill(1).buffer, 0, bytes);
}
