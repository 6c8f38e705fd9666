import type { NativeDevice, NativeLaunch, NativeStep } from '../../src/executor/device/addon.js';
import { argumentBytes } from '../../src/executor/device/contract.js';
import { Device } from '../../src/executor/device/device.js';
import { allContracts } from '../../src/executor/kernels/index.js';

const BASE = 2 ** 40;
const ALIGNMENT = 256;

/** Sizes of the arguments of every kernel. */
const KERNELS = new Map(allContracts.map((contract) => [contract.name, contract.arguments.map(argumentBytes)]));

/**
 * A GPU that takes every kernel, launches none and counts what is asked of it: memory is addresses alone, and reads as ones.
 * Any call can be made to fail.
 */
export class FakeNativeDevice implements NativeDevice {
  readonly properties = { description: 'no device', wave: 32, block: 256 };
  /** Calls so far that may fail. */
  calls = 0;
  /** The number of the call that fails, counted from 1; what it is, is kept in {@link failed}. */
  failAt = 0;
  failed = '';
  /** Allocations and plans so far, and launches recorded in them. */
  allocations = 0;
  launches = 0;
  private readonly live = new Map<number, number>();
  private readonly plans = new Set<number>();
  private readonly captured = new Set<string>();
  private nextAddress = BASE;
  private nextPlan = 0;
  private instantiated = 0;

  /** @param bytes of memory */
  constructor(private readonly bytes = 1 << 30) {}

  /** Bytes, plans and graphs that were not given back. */
  get held(): { readonly bytes: number; readonly plans: number; readonly graphs: number } {
    return { bytes: this.usedBytes, plans: this.plans.size, graphs: this.captured.size };
  }

  kernel(name: string): number[] {
    this.count(`kernel ${name}`);
    return KERNELS.get(name) as number[];
  }

  allocate(bytes: number): number {
    this.count('allocate');
    this.allocations += 1;
    if (this.usedBytes + bytes > this.bytes) throw new Error(`no room for ${bytes} bytes`);
    const address = this.nextAddress;
    this.nextAddress += Math.ceil((bytes + 1) / ALIGNMENT) * ALIGNMENT;
    this.live.set(address, bytes);
    return address;
  }

  release(address: number): void {
    if (!this.live.delete(address)) throw new Error('released what is not allocated');
  }

  write(): void {
    this.count('write');
  }

  read(_address: number, bytes: number): Uint8Array {
    this.count('read');
    const ones = new Float32Array(Math.ceil(bytes / 4)).fill(1);
    return new Uint8Array(ones.buffer, 0, bytes);
  }

  upload(): void {
    this.count('upload');
  }

  memory() {
    this.count('memory');
    return { freeBytes: this.bytes - this.usedBytes, totalBytes: this.bytes };
  }

  copies() {
    return { in: 0, inBytes: 0, out: 0, outBytes: 0 };
  }

  createPlan(launches: readonly NativeLaunch[]): number {
    this.count('createPlan');
    this.launches += launches.length;
    this.plans.add(this.nextPlan);
    return this.nextPlan++;
  }

  releasePlan(plan: number): void {
    if (!this.plans.delete(plan)) throw new Error('released no plan');
    for (const graph of [...this.captured]) if (graph.startsWith(`${plan}:`)) this.captured.delete(graph);
  }

  capture(plan: number, counts: Int32Array): void {
    this.count('capture');
    this.instantiated += 1;
    this.captured.add(`${plan}:${counts.join()}`);
  }

  graphs(): number {
    return this.instantiated;
  }

  timeLaunches(): Float64Array {
    return new Float64Array(0);
  }

  async run(_step: NativeStep): Promise<number> {
    this.count('run');
    return 0;
  }

  private get usedBytes(): number {
    let sum = 0;
    for (const bytes of this.live.values()) sum += bytes;
    return sum;
  }

  private count(call: string): void {
    this.calls += 1;
    if (this.calls !== this.failAt) return;
    this.failed = call;
    throw Object.assign(new Error(`planted at ${call}`), { sticky: false });
  }
}

/** A fake GPU as the executor sees one. */
export function fakeGpu(native = new FakeNativeDevice()): Device {
  return new Device(native, 'hip', 'double');
}
