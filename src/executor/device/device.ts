import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { RocmForgeError } from '../../shared/errors.js';
import { packageRoot } from '../../shared/package.js';
import type { KernelContract } from '../kernels/contract.js';
import { argumentBytes } from '../kernels/contract.js';
import { loadAddon, type NativeDevice } from './addon.js';

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

/** One device: memory, and kernels whose arguments were checked against their contracts. */
export class Device {
  readonly wave: number;
  readonly block: number;
  readonly description: string;
  private readonly checked = new Set<string>();
  private bytes = 0;

  constructor(
    readonly native: NativeDevice,
    kind: string,
  ) {
    const { description, wave, block } = native.properties;
    this.description = `${kind} (${description})`;
    this.wave = wave;
    this.block = block;
  }

  /** Bytes allocated through this object and not released. */
  get usedBytes(): number {
    return this.bytes;
  }

  /** Zeroed memory would cost a pass over it: contents are undefined. Throws `OUT_OF_MEMORY`. */
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

  release(buffer: DeviceBuffer): void {
    this.native.release(buffer.address);
    this.bytes -= Math.max(buffer.elements, 1) * DTYPE_BYTES[buffer.dtype];
  }

  /** Copies `values` to a new buffer. */
  upload(values: Float32Array | Int32Array): DeviceBuffer {
    const buffer = this.allocate(values instanceof Float32Array ? 'f32' : 'i32', values.length);
    this.native.write(buffer.address, new Uint8Array(values.buffer, values.byteOffset, values.byteLength));
    return buffer;
  }

  /** The first `elements` of an f32 buffer. Waits for the device: for tests and start-up checks. */
  readF32(buffer: DeviceBuffer, elements = buffer.elements): Float32Array {
    const bytes = this.native.read(buffer.address, elements * 4);
    return new Float32Array(bytes.buffer, bytes.byteOffset, elements);
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
    const expected = contract.arguments.map(argumentBytes);
    if (actual.join() !== expected.join()) {
      throw new RocmForgeError(
        'KERNELS_INVALID',
        `kernel ${contract.name} takes arguments of ${actual.join(', ')} bytes, its contract says ${expected.join(', ')}`,
      );
    }
    this.checked.add(contract.name);
  }
}

/** Instruction set levels that host kernels are built for, best first. `native` is whatever the build machine has. */
export const HOST_LEVELS = ['native', 'x86-64-v4-vnni', 'x86-64-v4', 'x86-64-v3'] as const;
export type HostLevel = (typeof HOST_LEVELS)[number];

/** Which device to open, and from where its kernels come. */
export interface DeviceOptions {
  readonly kind: 'host';
  /** Threads of the host device; default: all processors this process may use. */
  readonly threads?: number;
  /** Folder with one sub-folder a target; default: the package's own. */
  readonly kernels?: string;
  /** Host kernels built for this instruction set level; default: the best that there is. */
  readonly level?: HostLevel;
}

interface Manifest {
  readonly files: readonly { readonly file: string; readonly sha256: string }[];
}

/** Opens a device. Throws `DEVICE_UNAVAILABLE` or `KERNELS_INVALID`, each naming the file and what to run. */
export function openDevice(options: DeviceOptions): Device {
  const addon = loadAddon();
  const folder = path.join(options.kernels ?? path.join(packageRoot, 'build', 'kernels'), 'host');
  const best = addon.hostLevel();
  if (best === '') {
    throw new RocmForgeError('DEVICE_UNAVAILABLE', 'this processor has no AVX2: x86-64-v3 is the least that is built');
  }
  const supported = HOST_LEVELS.filter((level, i) => level === 'native' || i >= HOST_LEVELS.indexOf(best as HostLevel));
  if (options.level !== undefined && !supported.includes(options.level)) {
    throw new RocmForgeError('DEVICE_UNAVAILABLE', `this processor has ${best}, not ${options.level}`);
  }
  const candidates = options.level === undefined ? supported : [options.level];
  const name = candidates.find((candidate) => existsSync(path.join(folder, `${candidate}.so`)));
  if (name === undefined) {
    throw new RocmForgeError(
      'KERNELS_INVALID',
      `no host kernels for ${candidates.at(-1)} in ${folder}; run "npm run build:kernels -- --target host"`,
    );
  }
  const library = verifiedFile(folder, `${name}.so`);
  const threads = options.threads ?? os.availableParallelism();
  try {
    return new Device(new addon.Device({ library, threads }), 'host');
  } catch (error) {
    throw new RocmForgeError('KERNELS_INVALID', (error as Error).message, {}, { cause: error });
  }
}

/** The path of a built file whose content is what the manifest beside it says. */
function verifiedFile(folder: string, file: string): string {
  const full = path.join(folder, file);
  const manifestFile = path.join(folder, 'manifest.json');
  if (!existsSync(manifestFile)) {
    throw new RocmForgeError('KERNELS_INVALID', `${manifestFile} is missing; run "npm run build:kernels"`);
  }
  const manifest = JSON.parse(readFileSync(manifestFile, 'utf8')) as Manifest;
  const expected = manifest.files.find((entry) => entry.file === file)?.sha256;
  if (createHash('sha256').update(readFileSync(full)).digest('hex') !== expected) {
    throw new RocmForgeError(
      'KERNELS_INVALID',
      `${full} is not the file its manifest describes; run "npm run build:kernels"`,
    );
  }
  return full;
}
