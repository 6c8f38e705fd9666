import { beforeAll, describe, expect, it } from 'vitest';
import { isTwin, type KernelContract, launchedOn } from '../../src/executor/device/contract.js';
import { allContracts } from '../../src/executor/kernels/index.js';
import { launchedKernels } from '../support/recorded-plans.js';
import { isFull } from '../support/run-size.js';

const names = (contracts: readonly KernelContract[]) => contracts.map(({ name }) => name).sort();

describe('the kernels that a device must have', () => {
  let launched: Awaited<ReturnType<typeof launchedKernels>>;
  beforeAll(async () => {
    launched = await launchedKernels(isFull ? 'all' : 'families');
  });

  it.each(['host', 'portable', 'hopper'] as const)('are those that some plan launches: %s', (device) => {
    const listed = names(launchedOn(allContracts, device));
    expect([...launched[device]].filter((name) => !listed.includes(name))).toEqual([]);
    if (isFull) expect(listed.filter((name) => !launched[device].has(name))).toEqual([]);
  });

  it('are no twins, which nothing launches', () => {
    const twins = allContracts.filter(isTwin);
    expect(twins.length).toBeGreaterThan(0);
    expect(twins.filter(({ name }) => Object.values(launched).some((names) => names.has(name)))).toEqual([]);
  });
});
