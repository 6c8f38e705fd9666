import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { RocmForgeError } from '../../shared/errors.js';
import { packageRoot } from '../../shared/package.js';

/** Everything JavaScript sees of `native/`. Addresses are numbers: device and host addresses fit in 53 bits. */
export interface Addon {
  readonly Device: new (options: { library: string; threads: number }) => NativeDevice;
  readonly MappedFile: new (path: string) => MappedFile;
  /** `x86-64-v4-vnni`, `x86-64-v4`, `x86-64-v3`, or the empty string when this processor has none of them. */
  hostLevel(): string;
  /** The kernel kills this process when its parent ends. */
  dieWithParent(): void;
}

/** A device and the one thread that talks to it. Methods throw an `Error` with a boolean `sticky`. */
export interface NativeDevice {
  readonly properties: { readonly description: string; readonly wave: number; readonly block: number };
  /** Size of each argument in bytes; throws when no code object holds the kernel. */
  kernel(name: string): number[];
  /** @returns an address aligned to 64 bytes */
  allocate(bytes: number): number;
  release(address: number): void;
  write(address: number, data: Uint8Array): void;
  read(address: number, bytes: number): Uint8Array;
  /** @returns the plan's number */
  createPlan(launches: readonly NativeLaunch[], countSlots: number): number;
  /** Queues: copy `input` in, run the plan, copy `output` out. @returns microseconds on the device */
  run(step: NativeStep): Promise<number>;
}

export interface NativeLaunch {
  readonly kernel: string;
  readonly grid: readonly [NativeGridDim, NativeGridDim, NativeGridDim];
  /** One word an argument, its bytes at the low end. */
  readonly arguments: BigUint64Array;
}

/** ceil(value / divisor), where value is counts[count], or `constant` when count is -1. */
export interface NativeGridDim {
  readonly count: number;
  readonly constant: number;
  readonly divisor: number;
}

export interface NativeStep {
  readonly plan: number;
  readonly counts: Int32Array;
  readonly input: Uint8Array;
  readonly deviceInput: number;
  readonly output: Uint8Array;
  readonly deviceOutput: number;
}

/** A file mapped read-only for as long as the object is reachable. */
export interface MappedFile {
  readonly address: number;
  readonly size: number;
  /** Brings a range into memory. */
  touch(offset: number, bytes: number): Promise<void>;
}

let loaded: Addon | undefined;

/** The native addon. Throws `KERNELS_INVALID` when it was not built. */
export function loadAddon(): Addon {
  if (loaded === undefined) {
    const file = path.join(packageRoot, 'build', 'Release', 'rocmforge.node');
    if (!existsSync(file)) {
      throw new RocmForgeError('KERNELS_INVALID', `the native addon is missing (${file}); run "npm run build:native"`);
    }
    loaded = createRequire(import.meta.url)(file) as Addon;
  }
  return loaded;
}
