import { RocmForgeError } from '../../shared/errors.js';
import type { GpuProperties, NativeDevice, NativeLink } from './addon.js';
import type { DeviceClass, KernelContract } from './contract.js';
import { argumentBytes } from './contract.js';
import { type DeviceStats, readDeviceStats } from './device-stats.js';
import type { KeptMemory, KeptRange } from './kept-memory.js';

/** Element types of device memory; `u8` are bytes whose layout a kernel's contract states, such as quantized blocks. */
export type Dtype = 'f32' | 'f16' | 'bf16' | 'i32' | 'u8';

export const DTYPE_BYTES: Readonly<Record<Dtype, number>> = { f32: 4, f16: 2, bf16: 2, i32: 4, u8: 1 };

/** A typed range of device memory. */
export interface DeviceBuffer {
  readonly address: number;
  readonly dtype: Dtype;
  readonly elements: number;
}

/** The part of `buffer` from element `offset` on. */
export function bufferFrom(buffer: DeviceBuffer, offset: number): DeviceBuffer {
  if (offset < 0 || offset > buffer.elements) throw new RangeError(`offset ${offset} outside the buffer`);
  return {
    address: buffer.address + offset * DTYPE_BYTES[buffer.dtype],
    dtype: buffer.dtype,
    elements: buffer.elements - offset,
  };
}

/** Source of buffers: a device, or a {@link DeviceScope} of one. */
export interface Allocator {
  allocate(dtype: Dtype, elements: number): DeviceBuffer;
  upload(values: Float32Array | Int32Array): DeviceBuffer;
}

/** Allocations, plans, links and scopes within that end together. */
export class DeviceScope implements Allocator {
  private readonly buffers: DeviceBuffer[] = [];
  private readonly plans: number[] = [];
  private readonly links: NativeLink[] = [];
  private readonly children = new Set<DeviceScope>();

  constructor(
    readonly device: Device,
    private readonly parent?: DeviceScope,
    private readonly keeps = true,
  ) {
    parent?.children.add(this);
  }

  /** A scope that ends with this one, or before it. @param keeps whether kept memory is for it, too */
  child(keeps = this.keeps): DeviceScope {
    return new DeviceScope(this.device, this, keeps);
  }

  allocate(dtype: Dtype, elements: number): DeviceBuffer {
    return this.keep(this.device.allocate(dtype, elements));
  }

  upload(values: Float32Array | Int32Array): DeviceBuffer {
    return this.keep(this.device.upload(values));
  }

  /** A buffer in memory that outlives this process, where the device has such; contents are what was written there before, or 0. */
  allocateKept(dtype: Dtype, elements: number): DeviceBuffer {
    return this.keep(this.keeps ? this.device.allocateKept(dtype, elements) : this.device.allocate(dtype, elements));
  }

  /** As {@link Device.allocatePinned}. */
  allocatePinned(dtype: Dtype, elements: number): DeviceBuffer {
    return this.keep(this.device.allocatePinned(dtype, elements));
  }

  /** Frees the plan with everything else. @returns its number */
  plan(plan: number): number {
    this.plans.push(plan);
    return plan;
  }

  /** Closes the link with everything else, which is that of a device that receives. */
  link(link: NativeLink): NativeLink {
    this.links.push(link);
    return link;
  }

  /** Frees all of it; what cannot be freed does not keep the rest. @throws Error of the first that could not */
  release(): void {
    this.parent?.children.delete(this);
    const errors: unknown[] = [];
    const attempt = (free: () => void): void => {
      try {
        free();
      } catch (error) {
        errors.push(error);
      }
    };
    for (const child of [...this.children]) attempt(() => child.release());
    // Plans and links lead into the buffers.
    for (const plan of this.plans.splice(0)) attempt(() => this.device.native.releasePlan(plan));
    for (const link of this.links.splice(0)) attempt(() => link.close());
    for (const buffer of this.buffers.splice(0)) attempt(() => this.device.release(buffer));
    if (errors.length > 0) throw errors[0];
  }

  private keep(buffer: DeviceBuffer): DeviceBuffer {
    this.buffers.push(buffer);
    return buffer;
  }
}

/** The target whose code objects have Hopper's own instructions. */
export const HOPPER = 'sm_90';

/** One device: memory, and kernels whose arguments were checked against their contracts. */
export class Device implements Allocator {
  readonly wave: number;
  readonly block: number;
  readonly description: string;
  /** Memory that outlives this process; absent where there is none. */
  kept: KeptMemory | undefined;
  /** Opens the host device that computes for this GPU; absent where there is none. */
  opensHost: (() => Device) | undefined;
  private openedHost: Device | undefined;
  private budget: { readonly bytes: number; readonly freeBefore: number } | undefined;
  private readonly pinned = new Set<number>();
  private readonly keptRanges = new Map<number, KeptRange>();
  private readonly checked = new Set<string>();
  private bytes = 0;

  /**
   * @param kind whether memory is the host's own, where tensors can stay in the file's mapping
   * @param target what its kernels were built for: `gfx1100`, `sm_90`, `x86-64-v4`
   * @param gpu which GPU it is
   * @param code digest of its code objects
   * @param threads of the host device
   */
  constructor(
    readonly native: NativeDevice,
    readonly kind: 'host' | 'hip' | 'cuda',
    readonly target: string,
    readonly gpu?: GpuProperties,
    readonly code = '',
    readonly threads = 1,
  ) {
    const { description, wave, block } = native.properties;
    this.description = `${kind} (${description})`;
    this.wave = wave;
    this.block = block;
  }

  get isHost(): boolean {
    return this.kind === 'host';
  }

  /** Which kernels it launches. */
  get deviceClass(): DeviceClass {
    if (this.isHost) return 'host';
    return this.target === HOPPER ? 'hopper' : 'portable';
  }

  /**
   * The host device that computes what stays in the host's memory; opened when it is first needed.
   *
   * @throws RocmForgeError `DEVICE_UNAVAILABLE` or `KERNELS_INVALID` where it cannot be opened
   */
  get host(): Device {
    if (this.isHost) return this;
    if (this.opensHost === undefined) throw new RocmForgeError('DEVICE_UNAVAILABLE', 'no host device was configured');
    this.openedHost ??= this.opensHost();
    return this.openedHost;
  }

  /** Lets this process take so many bytes from now on, of those that are free. */
  limitMemory(bytes: number): void {
    this.budget = { bytes, freeBefore: this.native.memory().freeBytes };
  }

  /** Bytes that are free, within {@link limitMemory}; 0 where memory is the host's. */
  get freeBytes(): number {
    const { freeBytes } = this.native.memory();
    if (this.budget === undefined) return freeBytes;
    const taken = this.budget.freeBefore - freeBytes;
    return Math.max(0, Math.min(freeBytes, this.budget.bytes - taken));
  }

  /** Memory in all; 0 where it is the host's. */
  get totalBytes(): number {
    return this.gpu?.totalBytes ?? 0;
  }

  /** Current sensor values of the GPU. */
  stats(): DeviceStats {
    if (this.kind === 'host' || this.gpu === undefined) return {};
    return readDeviceStats(this.kind, this.gpu.pciBusId);
  }

  /** Bytes allocated through this object and not released. */
  get usedBytes(): number {
    return this.bytes;
  }

  /** Those of them that end with this process. */
  get ownBytes(): number {
    return Array.from(this.keptRanges.values()).reduce((left, { bytes }) => left - bytes, this.bytes);
  }

  /** Contents are undefined, but hold no NaN on a GPU. Throws `OUT_OF_MEMORY`. */
  allocate(dtype: Dtype, elements: number): DeviceBuffer {
    const size = Math.max(elements, 1) * DTYPE_BYTES[dtype];
    let address: number;
    try {
      address = this.native.allocate(size);
    } catch (error) {
      throw new RocmForgeError('OUT_OF_MEMORY', (error as Error).message, {}, { cause: error });
    }
    this.bytes += size;
    return { address, dtype, elements };
  }

  /** As {@link allocate}, in {@link kept} memory if there is: contents are what another process left there, or 0. */
  allocateKept(dtype: Dtype, elements: number): DeviceBuffer {
    const size = Math.max(elements, 1) * DTYPE_BYTES[dtype];
    const range = this.kept?.allocate(size);
    if (range === undefined) return this.allocate(dtype, elements);
    this.keptRanges.set(range.address, range);
    this.bytes += size;
    return { address: range.address, dtype, elements };
  }

  /** Memory of the host that launches of this device and of {@link host} read and write. Throws `OUT_OF_MEMORY`. */
  allocatePinned(dtype: Dtype, elements: number): DeviceBuffer {
    let address: number;
    try {
      address = this.native.allocatePinned(Math.max(elements, 1) * DTYPE_BYTES[dtype]);
    } catch (error) {
      throw new RocmForgeError('OUT_OF_MEMORY', (error as Error).message, {}, { cause: error });
    }
    this.pinned.add(address);
    return { address, dtype, elements };
  }

  release(buffer: DeviceBuffer): void {
    if (this.pinned.delete(buffer.address)) {
      this.native.releasePinned(buffer.address);
      return;
    }
    this.bytes -= Math.max(buffer.elements, 1) * DTYPE_BYTES[buffer.dtype];
    const range = this.keptRanges.get(buffer.address);
    if (range !== undefined) {
      this.keptRanges.delete(buffer.address);
      this.kept?.release(range);
      return;
    }
    this.native.release(buffer.address);
  }

  /** Copies `values` to a new buffer. */
  upload(values: Float32Array | Int32Array): DeviceBuffer {
    const buffer = this.allocate(values instanceof Float32Array ? 'f32' : 'i32', values.length);
    try {
      this.native.write(buffer.address, new Uint8Array(values.buffer, values.byteOffset, values.byteLength));
    } catch (error) {
      this.release(buffer);
      throw error;
    }
    return buffer;
  }

  /** The first `elements` of an f32 buffer. Waits for the device: for tests and start-up checks. */
  readF32(buffer: DeviceBuffer, elements = buffer.elements): Float32Array {
    const bytes = this.native.read(buffer.address, elements * 4);
    return new Float32Array(bytes.buffer, bytes.byteOffset, elements);
  }

  /** True if the kernel was built for this device: twins are only where somebody asked for them. */
  hasKernel({ name }: Pick<KernelContract, 'name'>): boolean {
    try {
      this.native.kernel(name);
      return true;
    } catch {
      return false;
    }
  }

  /** Throws `KERNELS_INVALID` unless the loaded code takes exactly the arguments of the contract. */
  checkKernel(contract: KernelContract): void {
    if (this.checked.has(contract.name)) return;
    let actual: number[];
    try {
      actual = this.native.kernel(contract.name);
    } catch (error) {
      throw new RocmForgeError('KERNELS_INVALID', `${(error as Error).message}; run "npm run build:kernels"`);
    }
    checkArguments(contract, actual);
    this.checked.add(contract.name);
  }
}

/** Throws `KERNELS_INVALID` unless a kernel's arguments have the sizes that its contract states. */
export function checkArguments(contract: KernelContract, actual: readonly number[]): void {
  const expected = contract.arguments.map(argumentBytes);
  if (actual.join() === expected.join()) return;
  throw new RocmForgeError(
    'KERNELS_INVALID',
    `kernel ${contract.name} takes arguments of ${actual.join(', ')} bytes, its contract says ${expected.join(', ')}; ` +
      'run "npm run build:kernels"',
  );
}
