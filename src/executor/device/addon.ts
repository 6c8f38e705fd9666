import { loadNativeAddon } from '../../shared/native-addon.js';
import type { DeviceStats } from './device-stats.js';

/** Everything JavaScript sees of `native/`. Addresses are numbers: device and host addresses fit in 53 bits. */
export interface Addon {
  readonly Device: new (options: NativeHostOptions | NativeGpuOptions) => NativeDevice & NativeSharing;
  readonly MappedFile: new (path: string) => MappedFile;
  /** Devices that the platform's driver finds; none is kept open. Throws with the loader's or the driver's own words. */
  probeGpu(platform: GpuPlatform): GpuProbe;
  /** Sensor values of a GPU from NVIDIA's management library; empty if it is absent. */
  nvmlStats(pciBusId: string): DeviceStats;
  /**
   * Multiplies f16 rows by an f16 matrix into f32 with the platform's library, cuBLAS or rocBLAS.
   *
   * @param library its file; empty: as the loader finds it
   * @returns microseconds of one of `repeats` in a graph. Throws with the loader's, the library's or the driver's own words.
   */
  timeVendorProduct(
    platform: GpuPlatform,
    ordinal: number,
    library: string,
    product: NativeProduct,
    repeats: number,
  ): number;
  /** `x86-64-v4-vnni`, `x86-64-v4`, `x86-64-v3`, or the empty string when this processor has none of them. */
  hostLevel(): string;
  /** The kernel kills this process when its parent ends. */
  dieWithParent(): void;
  /**
   * Keeps what this process does on its device in a file that is read when it has ended, however it ended: each launch
   * and step is stored there without a system call, and a fatal signal before it takes its course.
   */
  openFaultRecord(path: string): void;
  /** Index into {@link FAULT_PHASES} of what the process is at. */
  stampPhase(phase: number): void;
  /**
   * Tells the service manager that started this process, as sd_notify(3) does.
   *
   * @param state assignments such as `READY=1`, a line each
   * @returns whether there is one. Throws when it cannot be reached
   */
  notifyServiceManager(state: string): boolean;
  /** @returns a descriptor of empty memory that outlives this process where another one has it, too */
  createSharedMemory(name: string): number;
  /**
   * Maps a part of such memory, which grows to have it; what is new is zero.
   *
   * @param offset a multiple of the page size
   * @returns its address. Throws with the system's own words
   */
  mapSharedMemory(descriptor: number, offset: number, bytes: number): number;
  unmapSharedMemory(address: number, bytes: number): void;
  /** Makes the memory's size final. */
  sealSharedMemory(descriptor: number): void;
  /** Takes the lock (flock(2)) of an open file, without waiting. @returns whether this process has it, until it closes the file */
  lockFile(descriptor: number): boolean;
}

/** `hip`: libamdhip64.so. `cuda`: libcuda.so.1, HIP's second platform. */
export type GpuPlatform = 'hip' | 'cuda';

export interface NativeHostOptions {
  /** Shared object of host kernels. */
  readonly library: string;
  readonly threads: number;
  /** Index among the devices that a process opens; absent if there is one. */
  readonly number?: number;
}

export interface NativeGpuOptions extends Pick<NativeHostOptions, 'number'> {
  readonly platform: GpuPlatform;
  readonly ordinal: number;
  /** Lanes a wave and threads a block that the code objects were built for. */
  readonly wave: number;
  readonly block: number;
  readonly kernels: readonly {
    readonly name: string;
    /** Path of the code object. */
    readonly file: string;
    readonly argumentBytes: readonly number[];
    /** Threads of a block; absent: the device's default. */
    readonly threads?: number;
    readonly dynamicSharedBytes?: number;
  }[];
}

export interface GpuProbe {
  /** The library that was opened, and the version it names. */
  readonly library: string;
  readonly version: number;
  readonly devices: readonly GpuProperties[];
}

export interface GpuProperties {
  readonly ordinal: number;
  readonly name: string;
  /** `gfx1100`, `sm_90`. */
  readonly architecture: string;
  /** Such as `0000:03:00.0`. */
  readonly pciBusId: string;
  readonly totalBytes: number;
  readonly multiprocessors: number;
  /** True if one process at a time may use it, by NVIDIA's compute mode. */
  readonly isExclusive?: boolean;
}

/** Memory of a GPU that several processes have. */
export interface NativeSharing {
  /** @returns 64 bytes by which another process imports the allocation. This process must live as long */
  exportMemory(address: number): Uint8Array;
  /** @returns the address in this process of another one's allocation */
  importMemory(handle: Uint8Array): number;
  closeMemory(address: number): void;
}

/** A device and the one thread that talks to it. Methods throw an `Error` with a boolean `sticky`. */
export interface NativeDevice {
  readonly properties: { readonly description: string; readonly wave: number; readonly block: number };
  /** Size of each argument in bytes; throws when no code object holds the kernel. */
  kernel(name: string): number[];
  /** @returns an address aligned to 64 bytes */
  allocate(bytes: number): number;
  release(address: number): void;
  /** Memory of the host that launches read and write at the same address; zeros. */
  allocatePinned(bytes: number): number;
  releasePinned(address: number): void;
  write(address: number, data: Uint8Array): void;
  read(address: number, bytes: number): Uint8Array;
  /**
   * Copies from host memory that JavaScript has only the address of.
   *
   * @param bytes in all
   * @param rowBytes of rows that lie `pitch` bytes apart there, and follow each other here; absent: it is one piece
   */
  upload(address: number, hostAddress: number, bytes: number, rowBytes?: number, pitch?: number): void;
  /** 0 and 0 where memory is the host's. */
  memory(): { readonly freeBytes: number; readonly totalBytes: number };
  /** Copies over the bus since the device was opened. */
  copies(): { readonly in: number; readonly inBytes: number; readonly out: number; readonly outBytes: number };
  /**
   * @param captureFrom launches before this one stay outside of captured graphs
   * @param host device of launches on the host; absent: there are none
   * @returns the plan's number
   */
  createPlan(launches: readonly NativeLaunch[], countSlots: number, captureFrom: number, host?: NativeDevice): number;
  /** Frees a plan and its graphs. It must not run again. */
  releasePlan(plan: number): void;
  /** Captures what a plan launches for these counts, so that recurring steps of them run as one graph; nothing on the host. */
  capture(plan: number, counts: Int32Array): void;
  /** Graphs instantiated since the device was opened. */
  graphs(): number;
  /** Runs the plan once. @returns microseconds of each launch, 0 for those the counts leave out */
  timeLaunches(plan: number, counts: Int32Array): Float64Array;
  /** Queues: copy `input` in, run the plan, copy `output` out. @returns microseconds on the device */
  run(step: NativeStep): Promise<number>;
  /** True if this device can copy to the memory of another one of its kind; from then on it may. */
  canReach(other: NativeDevice): boolean;
  /** Takes the memory that steps of so many bytes go through, for those that must not wait for it. */
  reserve(inputBytes: number, outputBytes: number): void;
  /** Stores a word in its memory while launches run; it is there when this returns. */
  signal(address: number, word: number): void;
  /** A link to another device of its kind. Throws an `Error` with a boolean `sticky`. */
  linkTo(other: NativeDevice, options: NativeLinkOptions): NativeLink;
}

export interface NativeLinkOptions {
  /** Memory of the receiving device, `bytes` each, that messages go through in turn; 0: pinned memory of the host. */
  readonly memory: readonly number[];
  readonly bytes: number;
  /**
   * Each message is received once, in the order in which they were sent, and waited for before its memory is used again. Else
   * any of the latest may be received, any number of times.
   */
  readonly inTurn: boolean;
}

/** Messages from one device to another, numbered from 0 on. One that could not be sent fails the step that receives it. */
export interface NativeLink {
  /** Gives its memory back. No step may name it any more. */
  close(): void;
}

/** Data that a step receives from another device before its launches, or sends to one behind them. */
export interface NativeTransfer {
  readonly link: NativeLink;
  /** Address on this device. */
  readonly address: number;
  readonly bytes: number;
  /** Its number, of what is received. */
  readonly message?: number;
}

/** y `[tokens, out]` = x `[tokens, in]` · weightᵀ, weight `[out, in]`: addresses and sizes. */
export interface NativeProduct {
  readonly weight: number;
  readonly x: number;
  readonly y: number;
  readonly tokens: number;
  readonly out: number;
  readonly in: number;
}

export interface NativeLaunch {
  readonly kernel: string;
  readonly grid: readonly [NativeGridDim, NativeGridDim, NativeGridDim];
  /** Launched on the plan's host device, when the launches before it have ended. Default: false. */
  readonly onHost?: boolean;
  /** Names this launch, so that launches on the host can wait for it and those before it. */
  readonly mark?: number;
  /** A launch on the host waits for the latest launch of this name alone, in this step or before; for none if there is none. */
  readonly behindMark?: number;
  /** One word an argument, its bytes at the low end. */
  readonly arguments: BigUint64Array;
  /** Its arguments for people to read. When there, the launch is logged on stderr before it runs. */
  readonly description?: string;
  /** Launched only when counts[count] lies in [atLeast, atMost]. */
  readonly when?: { readonly count: number; readonly atLeast: number; readonly atMost: number };
}

/**
 * ceil(value / divisor), where value is `constant` when count is -1, else what counts[count] counts from `first` on, `most`
 * at most, `times` for each.
 */
export type NativeGridDim =
  | { readonly count: -1; readonly constant: number; readonly divisor: number }
  | {
      readonly count: number;
      readonly constant: 0;
      readonly divisor: number;
      readonly first: number;
      readonly most: number;
      readonly times: number;
    };

export interface NativeStep {
  readonly plan: number;
  /** The gateway's number of it, for the fault record; absent for what is no step. */
  readonly step?: number;
  readonly counts: Int32Array;
  /** These counts come again: a GPU runs the graph that was captured for them, where there is one. */
  readonly recurring: boolean;
  readonly input: Uint8Array;
  /** Pairs of an offset and a number of bytes of a file, which go to the device behind it. Read by a thread of the device. */
  readonly file?: { readonly descriptor: number; readonly ranges: Float64Array };
  readonly deviceInput: number;
  readonly output: Uint8Array;
  readonly deviceOutput: number;
  readonly receives?: NativeTransfer | undefined;
  readonly sends?: NativeTransfer | undefined;
  /** True if this is the first part of the step, and whether it is the last; default: it is all of it. */
  readonly begins?: boolean;
  readonly ends?: boolean;
  /** Goes on with the run before: if that has not ended yet, nobody need hear of its end before this one's. Default false. */
  readonly joins?: boolean;
}

/** A file mapped read-only until it is closed, or the object is reachable no more. */
export interface MappedFile {
  readonly address: number;
  readonly size: number;
  /**
   * Brings a range of bytes into memory, in a thread of the pool. The file must stay mapped until it has.
   *
   * @returns a 64-bit checksum of the range and its offset; not cryptographic
   */
  read(offset: number, bytes: number): Promise<bigint>;
  /** True if somebody has written to the file or changed its length since it was mapped. Under a microsecond. */
  isChanged(): boolean;
  /** Gives up the mapping's pages in a thread of the pool. The file must stay mapped until it has. */
  dropPages(): Promise<void>;
  /** Unmaps it. Nothing may read from it any more. */
  close(): void;
}

/**
 * The native addon: what was built here, else what the package brought.
 *
 * @throws RocmForgeError `KERNELS_INVALID` when there is neither, or when it cannot be loaded on this system
 */
export const loadAddon = (): Addon => loadNativeAddon<Addon>();
