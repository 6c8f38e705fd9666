import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { targetFor } from '../../executor/load/open-device.js';
import { packageRoot } from '../../shared/package.js';
import type { Card } from './cards.js';
import type { Finding } from './finding.js';

export const KERNELS = path.join(packageRoot, 'build', 'kernels');

/** Command that builds code objects for a target. */
const building = (target: string): string => `npm run build:kernels -- --target ${target}`;

/**
 * Built code objects, and for each card whether the loader accepts some of them.
 *
 * @param folder with one sub-folder a target
 */
export function codeObjectFindings(cards: readonly Card[], folder = KERNELS): Finding[] {
  const targets = existsSync(folder) ? readdirSync(folder).filter((name) => /^(gfx|sm_)/.test(name)) : [];
  const findings: Finding[] = [];
  if (targets.length === 0) {
    const [card] = cards;
    findings.push(
      card === undefined
        ? { check: 'code objects', state: 'info', detail: `none built; a GPU needs its own: ${building('TARGET')}` }
        : { check: 'code objects', state: 'missing', detail: 'none built', fix: building(card.target) },
    );
  } else {
    findings.push({
      check: 'code objects',
      state: 'ok',
      detail: `of ${targets.map((name) => described(folder, name)).join(', ')}`,
    });
  }
  for (const target of new Set(cards.map((card) => card.target))) {
    const check = `code objects for ${target}`;
    const taken = builtFor(target, folder);
    findings.push(
      taken === undefined
        ? { check, state: 'failed', detail: 'none', fix: building(target) }
        : { check, state: 'ok', detail: taken === target ? 'its own' : `those of ${taken}` },
    );
  }
  return findings;
}

/** The built target that the loader takes for an architecture; undefined where it takes none. */
export function builtFor(target: string, folder = KERNELS): string | undefined {
  try {
    return targetFor(target, folder);
  } catch {
    return undefined;
  }
}

function described(folder: string, target: string): string {
  try {
    const { files } = JSON.parse(readFileSync(path.join(folder, target, 'manifest.json'), 'utf8')) as {
      files: unknown[];
    };
    return `${target} (${files.length} files)`;
  } catch (error) {
    return `${target} (unreadable: ${(error as Error).message})`;
  }
}
