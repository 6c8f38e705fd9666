import { beforeAll, describe, expect, it } from 'vitest';
import { isTwin, type KernelContract, launchedOn } from '../../src/executor/device/contract.js';
import { allContracts } from '../../src/executor/kernels/index.js';
import { launchedKernels } from '../support/recorded-plans.js';

const names = (contracts: readonly KernelContract[]) => contracts.map(({ name }) => name).sort();

describe('the kernels that a device must have', () => {
  let launched: Awaited<ReturnType<typeof launchedKernels>>;
  beforeAll(async () => {
    launched = await launchedKernels();
  }, 300_000);

  it.each(['host', 'portable', 'hopper'] as const)('are those that some plan launches: %s', (device) => {
    expect(names(launchedOn(allContracts, device))).toEqual([...launched[device]].sort());
  });

  it('are no twins, which nothing launches', () => {
    const twins = allContracts.filter(isTwin);
    expect(twins.length).toBeGreaterThan(0);
    expect(twins.filter(({ name }) => Object.values(launched).some((names) => names.has(name)))).toEqual([]);
  });
});
