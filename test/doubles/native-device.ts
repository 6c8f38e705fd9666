import type { NativeDevice, NativeLaunch, NativeStep } from '../../src/executor/device/addon.js';
import { Device } from '../../src/executor/device/device.js';
import { CountingDevice } from '../../src/executor/load/counting-device.js';

/** A {@link CountingDevice} that counts what is asked of it, of which any call can be made to fail. */
export class FakeNativeDevice extends CountingDevice {
  /** Calls so far that may fail. */
  calls = 0;
  /** The number of the call that fails, counted from 1; what it is, is kept in {@link failed}. */
  failAt = 0;
  failed = '';
  /** Allocations and plans so far, and launches recorded in them. */
  allocations = 0;
  launches = 0;

  /** @param bytes of memory */
  constructor(bytes = 1 << 30) {
    super(bytes);
  }

  override kernel(name: string): number[] {
    this.count(`kernel ${name}`);
    return super.kernel(name);
  }

  override allocate(bytes: number): number {
    this.count('allocate');
    this.allocations += 1;
    return super.allocate(bytes);
  }

  override write(...given: Parameters<NativeDevice['write']>): void {
    this.count('write');
    super.write(...given);
  }

  override read(address: number, bytes: number): Uint8Array {
    this.count('read');
    return super.read(address, bytes);
  }

  override upload(...given: Parameters<NativeDevice['upload']>): void {
    this.count('upload');
    super.upload(...given);
  }

  override memory() {
    this.count('memory');
    return super.memory();
  }

  override createPlan(launches: readonly NativeLaunch[], countSlots: number, captureFrom: number): number {
    this.count('createPlan');
    this.launches += launches.length;
    return super.createPlan(launches, countSlots, captureFrom);
  }

  override capture(plan: number, counts: Int32Array): void {
    this.count('capture');
    super.capture(plan, counts);
  }

  override run(step: NativeStep): Promise<number> {
    this.count('run');
    return super.run(step);
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
