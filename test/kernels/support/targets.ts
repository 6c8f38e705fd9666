import { existsSync } from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect } from 'vitest';
import { loadAddon } from '../../../src/executor/device/addon.js';
import { Device, openDevice } from '../../../src/executor/device/device.js';
import type { Argument, KernelContract } from '../../../src/executor/kernels/contract.js';
import type { Sizes } from '../../../src/executor/kernels/tolerance.js';
import { packageRoot } from '../../../src/shared/package.js';
import { printErrors } from './compare.js';
import { type Buffers, launch, type TestArguments } from './launch.js';

/** Where the built kernels lie; the mutation script points it at a copy with a mistake in it. */
export const kernelsFolder = process.env.ROCMFORGE_TEST_KERNELS ?? path.join(packageRoot, 'build', 'kernels');

/** The lane orders that the lanes target takes in turn, one a launch: forward, reverse, random. */
const LANE_ORDERS = 3;

/** A place where kernels run. */
export class Target {
  private opened: Device | undefined;

  constructor(
    readonly name: 'host' | 'host-v3' | 'lanes32' | 'lanes64',
    /** How many generated cases a property is held against. */
    readonly runs: number,
  ) {}

  /** Whether threads of a block are simulated one by one: exact, and too slow for large shapes. */
  get simulated(): boolean {
    return this.name.startsWith('lanes');
  }

  get device(): Device {
    this.opened ??=
      this.name === 'host' ? openDevice({ kind: 'host', kernels: kernelsFolder }) : openLibrary(this.name);
    return this.opened;
  }

  /** Runs a kernel once; on simulated lanes once in each lane order, which must all give the same bits. */
  async launch<const A extends readonly Argument[]>(
    contract: KernelContract<A>,
    values: TestArguments<A>,
    dimensions: Sizes = {},
  ): Promise<Buffers> {
    const first = await launch(this.device, contract, values, dimensions);
    for (let order = 1; this.simulated && order < LANE_ORDERS; order++) {
      const again = await launch(this.device, contract, values, dimensions);
      for (const [name, buffer] of Object.entries(again)) {
        const same = Buffer.from(bytesOf(first[name]!)).equals(bytesOf(buffer));
        expect(same, `${contract.name}: ${name} depends on the order in which lanes run`).toBe(true);
      }
    }
    return first;
  }

  /** Holds a property against this target's number of cases. The sequence is fixed, so that a failure comes back. */
  async check<T>(cases: fc.Arbitrary<T>, property: (generated: T) => Promise<void>, runs = this.runs): Promise<void> {
    await fc.assert(fc.asyncProperty(cases, property), { numRuns: runs, seed: 20_250_601 });
  }
}

function bytesOf(array: Buffers[string]): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}

function openLibrary(name: string): Device {
  const file = name === 'host-v3' ? path.join('host', 'x86-64-v3.so') : path.join(name, 'lanes.so');
  const library = path.join(kernelsFolder, file);
  if (!existsSync(library)) {
    throw new Error(`${library} is missing; run "npm run build:kernels -- --target host,lanes"`);
  }
  return new Device(new (loadAddon().Device)({ library, threads: 1 }), name);
}

/** The host build for older processors has vector code of its own, which a newer one would otherwise never run. */
const hasOwnV3 =
  loadAddon().hostLevel() !== 'x86-64-v3' && existsSync(path.join(kernelsFolder, 'host', 'x86-64-v3.so'));
const runsOf = { host: 200, ...(hasOwnV3 ? { 'host-v3': 40 } : {}), lanes32: 20, lanes64: 20 };

/** Defines the tests of one kernel on each target; prints the largest error seen. */
export function onEachTarget(kernel: string, define: (target: Target) => void): void {
  for (const [name, runs] of Object.entries(runsOf)) {
    const target = new Target(name as keyof typeof runsOf, runs);
    describe(`${kernel} on ${target.name}`, () => {
      define(target);
      afterAll(() => printErrors(target.name));
    });
  }
}
