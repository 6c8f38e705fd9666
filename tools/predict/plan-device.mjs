// A GPU that records what a model launches, and keeps what little a step writes: its tables. Weights are never brought and
// read as zeros; how many instructions a kernel executes does not depend on them.
import { ftruncateSync, openSync, writeSync } from 'node:fs';
import { allContracts } from '../../dist/executor/kernels/index.js';
import { COUNTED_BASE, CountingDevice } from '../../dist/executor/load/counting-device.js';

const MEMORY_BYTES = 2 ** 37;
/** Argument that counts ended blocks, of kernels whose last blocks do more. */
const ARRIVALS = new Map(
  allContracts
    .map(({ name, arguments: taken }) => {
      return /** @type {const} */ ([name, taken.findIndex((argument) => argument.name === 'arrivals')]);
    })
    .filter(([, index]) => index >= 0),
);

export class PlanDevice extends CountingDevice {
  #plans = new Map();
  #file;
  #last;

  /** @param file becomes the device's memory: a sparse file, byte i of which is at COUNTED_BASE + i */
  constructor(file, wave) {
    super(MEMORY_BYTES);
    this.properties = { ...this.properties, wave };
    this.#file = openSync(file, 'w+');
    ftruncateSync(this.#file, MEMORY_BYTES);
  }

  /** Offset of the file's bytes in the addresses of launches. */
  get memoryPlace() {
    return { address: COUNTED_BASE, bytes: MEMORY_BYTES };
  }

  /** Launches of the last step: kernel, grid, argument words. */
  get launched() {
    return this.#last;
  }

  /** @override */
  write(address, data) {
    writeSync(this.#file, data, 0, data.length, address - COUNTED_BASE);
  }

  /** @override */
  createPlan(launches, countSlots, captureFrom) {
    const plan = super.createPlan(launches, countSlots, captureFrom);
    this.#plans.set(plan, launches);
    return plan;
  }

  /** @override */
  async run({ plan, counts, input, deviceInput }) {
    if (input.length > 0) this.write(deviceInput, input);
    this.#last = this.#plans
      .get(plan)
      .filter(({ when }) => when === undefined || isWithin(counts[when.count], when))
      .map(({ kernel, grid, arguments: words }) => ({ kernel, grid: grid.map((dim) => blocksOf(dim, counts)), words }))
      .filter(({ grid }) => grid.every((blocks) => blocks > 0));
    for (const launch of this.#last) this.#arrived(launch);
    return 0;
  }

  /** Few blocks of a grid are run, the last among them: all others of its x have ended before it. */
  #arrived({ kernel, grid: [x, , z], words }) {
    const index = ARRIVALS.get(kernel);
    if (index === undefined) return;
    this.write(Number(words[index]) + 4 * (x - 1), new Uint8Array(Int32Array.of(z - 1).buffer));
  }
}

const isWithin = (count, { atLeast, atMost }) => count >= atLeast && count <= atMost;

function blocksOf(dim, counts) {
  const value =
    'first' in dim ? Math.max(0, Math.min(counts[dim.count] - dim.first, dim.most)) * dim.times : dim.constant;
  return Math.ceil(value / dim.divisor);
}
