import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

/** Cost of a script in a thread or a process of its own relative to an import: such tests are slower. */
const STARTED = 20;

/** Modules that run others from `dist`, in a thread or a process. */
const STARTS = new Map([
  ['src/gateway/matching/grammar-threads.ts', 'src/gateway/matching/grammar-worker.ts'],
  ['src/gateway/hosted-model.ts', 'src/gateway/api/encode-worker.ts'],
  ['src/gateway/replica/link/executor-process.ts', 'src/cli/main.ts'],
  // In its bundle.
  ['src/cli/main.ts', 'src/cli/program.ts'],
]);
/** The command, as tests name it. */
const COMMAND = /\bdist\b.*\bmain\.js\b|\bbin\.rocmforge\b/;

const IMPORT = /^(?:import|export)\s+(?!type\b)(?:[^;'"]*?\sfrom\s+)?['"](\.[^'"]+)['"]/gm;
const DYNAMIC_IMPORT = /\bimport\(\s*['"](\.[^'"]+)['"]/g;

/**
 * The mistakes that are kept under a folder.
 *
 * @param {string} root of the checkout
 * @returns {{ name: string, file: string, target: string, says: string }[]} `name`: AREA/NAME; `file`: the patch; `target`: what
 *   it changes, from the root; `says`: what goes wrong for a user
 */
export function mutationsOf(root) {
  const folder = path.join(root, 'test', 'mutations');
  const patches = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.patch'));
  return patches.sort().map((name) => {
    const file = path.join(folder, name);
    const text = readFileSync(file, 'utf8');
    const target = /^\+\+\+ b\/(.+)$/m.exec(text)?.[1];
    if (target === undefined) throw new Error(`${file} changes no file`);
    return { name: name.slice(0, -'.patch'.length), file, target, says: text.split('\n', 1)[0] };
  });
}

/** All files of a kind below some folders, from the root. */
function filesBelow(root, folders, extension) {
  return folders.flatMap((folder) =>
    readdirSync(path.join(root, folder), { recursive: true, encoding: 'utf8' })
      .map((name) => path.posix.join(folder, name))
      .filter((name) => extension.test(name)),
  );
}

/**
 * Importers or starters of each file.
 *
 * @param {string} root of the checkout
 * @returns {Map<string, { by: string, costs: number }[]>}
 */
export function importersOf(root) {
  const files = filesBelow(root, ['src', 'test'], /(?<!\.d)\.(ts|mjs)$/);
  const known = new Set(files);
  const importers = new Map();
  const add = (by, what, costs) => {
    // Sources name the files that they become.
    const source = [what, what.replace(/\.js$/, '.ts')].find((file) => known.has(file));
    if (source === undefined) return;
    if (!importers.has(source)) importers.set(source, []);
    importers.get(source).push({ by, costs });
  };
  for (const file of files) {
    const text = readFileSync(path.join(root, file), 'utf8');
    for (const pattern of [IMPORT, DYNAMIC_IMPORT]) {
      for (const [, name] of text.matchAll(pattern)) {
        const what = path.posix.join(path.posix.dirname(file), name);
        if (what.startsWith('dist/')) add(file, what.replace('dist/', 'src/'), STARTED);
        else add(file, what, 1);
      }
    }
    if (STARTS.has(file)) add(file, STARTS.get(file), STARTED);
    if (file.startsWith('test/') && COMMAND.test(text)) add(file, 'src/cli/main.ts', STARTED);
  }
  return importers;
}

/**
 * Test files that a change of a file may concern, and how far they are from it.
 *
 * @param {Map<string, { by: string, costs: number }[]>} importers as {@link importersOf}
 * @param {string} changed from the root
 * @returns {Map<string, number>} by test file
 */
export function distancesFrom(importers, changed) {
  const distances = new Map([[changed, 0]]);
  const queue = [changed];
  for (const file of queue) {
    for (const { by, costs } of importers.get(file) ?? []) {
      const distance = (distances.get(file) ?? 0) + costs;
      if (distance >= (distances.get(by) ?? Number.POSITIVE_INFINITY)) continue;
      distances.set(by, distance);
      // A shorter way than the one before: what follows is looked at again.
      queue.push(by);
    }
  }
  return new Map([...distances].filter(([file]) => /^test\/.*\.(test|clock)\.ts$/.test(file)));
}
