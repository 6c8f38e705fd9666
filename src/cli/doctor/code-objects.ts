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
    const built = targets.map((target) => ({ target, ...manifestOf(folder, target) }));
    const readable = built.flatMap(({ target, files }) => (files === undefined ? [] : `${target} (${files} files)`));
    if (readable.length > 0) findings.push({ check: 'code objects', state: 'ok', detail: `of ${readable.join(', ')}` });
    for (const { target, problem } of built) {
      // A card that needs them gets a line of its own, below.
      if (problem !== undefined)
        findings.push({
          check: 'code objects',
          state: 'warning',
          detail: `${target}: ${problem}`,
          fix: building(target),
        });
    }
  }
  for (const target of new Set(cards.map((card) => card.target))) {
    const check = `code objects for ${target}`;
    const taken = builtFor(target, folder);
    const problem = taken === undefined ? 'none' : manifestOf(folder, taken).problem;
    findings.push(
      problem === undefined
        ? { check, state: 'ok', detail: taken === target ? 'its own' : `those of ${taken}` }
        : { check, state: 'failed', detail: problem, fix: building(taken ?? target) },
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

/** Number of files that a target's manifest lists, or why there is none. */
function manifestOf(folder: string, target: string): { readonly files?: number; readonly problem?: string } {
  const file = path.join(folder, target, 'manifest.json');
  if (!existsSync(file)) return { problem: 'incomplete build: manifest.json does not exist' };
  try {
    const { files } = JSON.parse(readFileSync(file, 'utf8')) as { files: unknown[] };
    return { files: files.length };
  } catch (error) {
    return { problem: `manifest.json cannot be read: ${(error as Error).message}` };
  }
}
