// Runs the tests that a change may have broken, of the tier in ROCMFORGE_TIER (default: that of `npm test`).
//
//   node tools/test-affected.mjs [--base REVISION] [--list]
//
// Changed are files that differ from the revision (default HEAD: what is not committed), and new files. TypeScript: the tests
// that import a changed module, however indirectly. Kernels: the tests of each kernel whose source includes a changed file.
// Tests of processes do not import what they run; a table names them by folder.
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { filesOf, TIER_NAMES } from '../test/tiers.mjs';
import { MUTATIONS } from './kernel-mutations.mjs';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const { values: options } = parseArgs({
  options: { base: { type: 'string', default: 'HEAD' }, list: { type: 'boolean', default: false } },
});

/** Tests of processes by the start of a changed path: the first match applies. */
const PROCESS_TESTS = [
  {
    from: 'src/cli/',
    tests: /^test\/(cli\/|e2e\/(command-line|demo|signals|service-manager|several-models-command|verify))/,
  },
  { from: 'src/gateway/api/', tests: /^test\/(gateway\/api|client|e2e\/(every-api|generation))/ },
  { from: 'src/gateway/', tests: /^test\/(e2e\/(constraints|every-api|generation|schedules)|faults\/(kills|poison))/ },
  { from: 'src/executor/', tests: /^test\/(e2e\/(generation|parity|state-snapshots)|faults\/(executor-faults|kills))/ },
  {
    from: 'src/lib/',
    tests: /^test\/(gateway\/(chat|constraints|tokenizer)|shared\/gguf|e2e\/(constraints|generation))/,
  },
  { from: 'src/shared/', tests: /^test\/(e2e\/(generation|every-api)|faults\/kills)/ },
  { from: 'native/', tests: /^test\/(executor\/|device\/|e2e\/generation|faults\/(fault-record|kills))/ },
  { from: 'proto/', tests: /^test\/(gateway\/api|client|shared\/grpc|e2e\/generation)/ },
  { from: 'tools/', tests: /^test\/(tools\/|cli\/build-kernels|kernels\/(build|lanes|mutations))/ },
  { from: 'kernels/', tests: /^test\/(executor\/(batch-invariance|families|parity)|e2e\/(generation|kernels-run))/ },
  { from: 'models/', tests: /^test\/(e2e\/demo|executor\/demo-oracle)/ },
];

/** @param {...string} args */
const git = (...args) => execFileSync('git', args, { cwd: root, encoding: 'utf8' }).split('\n').filter(Boolean);

/** Paths from the root. */
function changedFiles() {
  const changed = [...git('diff', '--name-only', options.base), ...git('ls-files', '--others', '--exclude-standard')];
  return [...new Set(changed)].sort();
}

/**
 * Every file that a kernel source includes, itself among them, by paths from the root.
 *
 * @param {string} file
 * @param {Set<string>} seen
 */
function includedBy(file, seen = new Set()) {
  if (seen.has(file) || !existsSync(path.join(root, file))) return seen;
  seen.add(file);
  for (const [, name = ''] of readFileSync(path.join(root, file), 'utf8').matchAll(/^\s*#\s*include\s+"([^"]+)"/gm)) {
    for (const folder of [path.posix.dirname(file), 'kernels']) includedBy(path.posix.join(folder, name), seen);
  }
  return seen;
}

/**
 * Tests of the kernels that a change reaches.
 *
 * @param {readonly string[]} changed
 * @param {readonly string[]} tests
 */
function kernelTests(changed, tests) {
  const sources = ['kernels', 'kernels/hopper', 'kernels/twins'].flatMap((folder) =>
    readdirSync(path.join(root, folder))
      .filter((name) => name.endsWith('.hip'))
      .map((name) => `${folder}/${name}`),
  );
  const reached = sources.filter((source) => {
    const included = includedBy(source);
    return changed.some((file) => included.has(file));
  });
  const names = new Set(reached.map((source) => path.basename(source, '.hip')));
  // A test launches the kernel of its name, and others that the table of mistakes lists.
  for (const { test, with: others = [], launches = [] } of MUTATIONS) {
    if ([...others, ...launches].some((name) => names.has(name))) names.add(test);
  }
  return tests.filter((file) => file.startsWith('test/kernels/') && names.has(path.basename(file, '.test.ts')));
}

/**
 * Runs a command and ends with its status when it fails.
 *
 * @param {string} command
 * @param {readonly string[]} args
 */
function run(command, args) {
  const { status } = spawnSync(command, args, { cwd: root, stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}

const tier = TIER_NAMES.find((name) => name === (process.env.ROCMFORGE_TIER ?? 'default'));
if (tier === undefined) {
  console.error(`test-affected: ROCMFORGE_TIER is "${process.env.ROCMFORGE_TIER}"; use ${TIER_NAMES.join(', ')}`);
  process.exit(1);
}
const tests = filesOf(tier, root).filter((file) => file.endsWith('.test.ts'));
const changed = changedFiles();
const modules = changed.filter((file) => /^(src|test)\/.*\.(ts|mjs)$/.test(file) && existsSync(path.join(root, file)));
const kernels = changed.filter((file) => /^kernels\/.*\.(hip|h)$/.test(file));
const named = new Set(kernels.length === 0 ? [] : kernelTests(kernels, tests));
for (const file of changed) {
  const row = PROCESS_TESTS.find(({ from }) => file.startsWith(from));
  if (row !== undefined) for (const test of tests.filter((name) => row.tests.test(name))) named.add(test);
}

if (changed.length === 0) console.log('nothing differs from', options.base);
if (options.list) {
  console.log(`changed: ${changed.join(' ')}`);
  if (modules.length > 0) console.log('tests that import changed modules (vitest related), and:');
  for (const file of [...named].sort()) console.log(file);
  process.exit(0);
}
if (changed.some((file) => /^(src|native|proto|protocols|kernels)\//.test(file)))
  run('npm', ['run', 'build', '--silent']);
if (kernels.length > 0) run(process.execPath, ['tools/build-kernels.mjs', '--target', 'lanes32']);
if (modules.length > 0) run('npx', ['vitest', 'related', '--run', '--passWithNoTests', ...modules]);
if (named.size > 0) run('npx', ['vitest', 'run', ...named]);
