import { execFileSync, spawnSync } from 'node:child_process';
import { expect, it } from 'vitest';

/** One that has numpy, which .ci/run gives the system's. */
const interpreter = ['python3', '/usr/bin/python3'].find(
  (name) => spawnSync(name, ['-c', 'import numpy']).status === 0,
) as string;

const python = (script: string) =>
  JSON.parse(
    execFileSync(interpreter, ['-'], {
      input: `import sys, json\nsys.path.insert(0, 'tools/emulator')\nimport numpy as np\nfrom census import Census, lds_passes, waits_of\n${script}`,
      encoding: 'utf8',
    }),
  );

it('takes a pass over the banks for each dword of the same bank that lanes ask for', () => {
  const passes = python(`
lanes = np.arange(32)
print(json.dumps([lds_passes(at, nbytes) for at, nbytes in [
  (4 * lanes, 4), (8 * lanes, 4), (128 * lanes, 4), (0 * lanes, 4), (16 * lanes, 16), (32 * lanes, 16), (132 * lanes, 4)]]))`);
  expect(passes).toEqual([
    ...[
      [1, 1],
      [2, 1],
      [32, 1],
      [1, 1],
    ], // One bank each, every other bank, one bank for all, one dword for all.
    ...[
      [4, 4],
      [8, 4],
      [1, 1],
    ], // 16 bytes each, with gaps, and rows padded by a dword.
  ]);
});

it('reads what wait instructions of each family let remain', () => {
  const remain = python(`
print(json.dumps([waits_of(name, imm, arch).remain for name, imm, arch in [
  ('S_WAITCNT', 0x03f7, 'rdna3'), ('S_WAITCNT', 0xfc07, 'rdna3'), ('S_WAITCNT', 0x0f71, 'cdna'), ('S_WAITCNT', 0xc07f, 'cdna'),
  ('S_WAIT_LOADCNT', 2, 'rdna4'), ('S_WAIT_LOADCNT_DSCNT', 0x301, 'rdna4'), ('S_WAIT_KMCNT', 0, 'rdna4')]]))`);
  expect(remain).toEqual([
    ...[{ load: 0 }, { lds: 0, scalar: 0 }, { load: 1 }, { lds: 0, scalar: 0 }],
    ...[{ load: 2 }, { load: 3, lds: 1 }, { scalar: 0 }],
  ]);
});

it('lets a wave wait as long as the value that it waits for is away, and a block as long as its slowest wave', () => {
  const { chain, head, drain, waits, touched } = python(`
census = Census(0, dict(far=400, near=100, lds=20, scalar=0, issue=1))
load = lambda address: (census.record(np.array([address], np.uint64), 4, 'GLOBAL_LOAD_B32'), census.issue(8))
wait = lambda remain: (census.wait(waits_of('S_WAIT_LOADCNT', remain, 'rdna4')), census.issue(16))
census.begin_block()
census.begin_wave(0)
load(0); load(1024); wait(1); wait(0)           # 400, and the second one is there an instruction later
load(4); wait(0)                                # asked for before: near
census.begin_wave(1)
for _ in range(10): census.issue(24)
census.barrier()
census.begin_wave(1)
load(4096); wait(0)
census.end_block()
print(json.dumps(census.summary(1)))`);
  // 400 and two waits, a near load of 100 and its wait: 503; from there 400 and a wait. Only two of the far values were waited for.
  expect({ chain, head, drain }).toEqual({ chain: 904, head: 400, drain: 1 });
  expect([waits, touched]).toEqual([2, 3 * 64]);
});
