import { existsSync, readdirSync, readFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { loadAddon } from '../executor/device/addon.js';
import { openDevice } from '../executor/device/open-device.js';
import { allContracts } from '../executor/kernels/contracts/index.js';
import { packageRoot, packageVersion } from '../shared/package.js';

/** One thing that was looked at. */
export interface Finding {
  readonly check: string;
  readonly state: 'ok' | 'missing' | 'failed' | 'not built';
  readonly detail: string;
}

/** `rocmforge doctor`: what of this installation works on this machine, each line tried and not assumed. */
export function examine(): Finding[] {
  return [
    { check: 'rocmforge', state: 'ok', detail: packageVersion },
    { check: 'node', state: 'ok', detail: `${process.version} ${process.platform} ${process.arch}` },
    {
      check: 'processor',
      state: 'ok',
      detail: `${os.cpus()[0]?.model ?? 'unknown'}, ${os.availableParallelism()} usable`,
    },
    attempt('native addon', () => `host level ${loadAddon().hostLevel() || 'below x86-64-v3'}`),
    attempt('host device', () => {
      const device = openDevice({ kind: 'host' });
      for (const contract of allContracts) device.checkKernel(contract);
      return `${device.description}, ${allContracts.length} kernels match their contracts`;
    }),
    ...codeObjects(),
    {
      check: 'AMD GPU',
      state: 'not built',
      detail: 'the executor does not drive GPUs yet; models run on the host device',
    },
  ];
}

/** The findings as a table. */
export function formatFindings(findings: readonly Finding[]): string {
  const width = Math.max(...findings.map(({ check }) => check.length));
  return findings.map(({ check, state, detail }) => `${check.padEnd(width)}  ${state.padEnd(9)}  ${detail}`).join('\n');
}

function attempt(check: string, probe: () => string): Finding {
  try {
    return { check, state: 'ok', detail: probe() };
  } catch (error) {
    return { check, state: 'failed', detail: (error as Error).message };
  }
}

function codeObjects(): Finding[] {
  const folder = path.join(packageRoot, 'build', 'kernels');
  const targets = existsSync(folder) ? readdirSync(folder).filter((name) => name.startsWith('gfx')) : [];
  if (targets.length === 0) {
    const detail = 'none built; "npm run build:kernels -- --target gfx1100" builds them';
    return [{ check: 'code objects', state: 'missing', detail }];
  }
  return targets.map((target) =>
    attempt(`code objects ${target}`, () => {
      const manifest = JSON.parse(readFileSync(path.join(folder, target, 'manifest.json'), 'utf8')) as {
        files: unknown[];
        compiler: string;
      };
      return `${manifest.files.length} files, ${manifest.compiler}`;
    }),
  );
}
