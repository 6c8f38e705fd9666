// Lint and format of TypeScript, C++ and proto, breaking changes of the released API, types, import rules, JSON.parse, lengths of files,
// the tier of each test file, links, paths and dates of the documentation, and words. `--write` formats instead of complaining;
// `--tiers` prints the table of tiers and ends.
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { testFiles, tiersOf } from '../test/tiers.mjs';
import { breakingComplaints } from './check-breaking.mjs';
import { docsComplaints } from './check-docs.mjs';
import { importComplaints } from './check-imports.mjs';
import { jsonComplaints } from './check-json.mjs';
import { lengthComplaints } from './check-lengths.mjs';
import { BASE_COMMIT, subjectComplaints, subjectsSince, wordComplaints } from './check-words.mjs';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const write = process.argv.includes('--write');
const bin = (name) => path.join(root, 'node_modules', '.bin', name);

/** Written by the build. */
const CONTRACT_HEADER = 'contract.h';

/** Runs a package's command; false and its output on stderr when it fails. */
const passes = (what, command, args) => succeeds(what, bin(command), args);

/** Checks a project's types. `.bin/tsc` may be that of the older compiler, whose library reads syntax trees. */
const typesPass = (what, project) =>
  succeeds(what, process.execPath, [path.join('node_modules', 'typescript', 'bin', 'tsc'), '-p', project]);

function succeeds(what, program, args) {
  const { status, stdout, stderr, error } = spawnSync(program, args, { cwd: root, encoding: 'utf8' });
  if (status !== 0) console.error(`${what} failed\n${stdout ?? ''}${stderr ?? ''}${error ?? ''}`);
  return status === 0;
}

/** The sources under some folders, but for what is generated, by path from the root. */
function sourcesOf(folders, extension) {
  const files = folders.flatMap((folder) =>
    readdirSync(path.join(root, folder), { recursive: true, encoding: 'utf8' }).map((name) => path.join(folder, name)),
  );
  const isOurs = (file) => extension.test(file) && !/^src\/shared\/generated\/|(^|\/)node_modules\//.test(file);
  return new Map(files.filter(isOurs).map((file) => [file, readFileSync(path.join(root, file), 'utf8')]));
}

/** Prints complaints; whether there are none. */
function holds(complaints) {
  for (const complaint of complaints) console.error(complaint);
  return complaints.length === 0;
}

/** Test files in no tier or in two, a sentence each. */
function tierComplaints() {
  return testFiles(root).flatMap((file) => {
    const tiers = tiersOf(file);
    if (tiers.length === 1) return [];
    return [`${file} belongs to ${tiers.join(' and ') || 'no tier'}; name it once in test/tiers.mjs`];
  });
}

/** Complaints about words in names, texts, guides and comments; prints the counts. */
function wordsOfTree() {
  const folders = ['src', 'native', 'kernels', 'proto', 'test', 'tools', 'bench', 'examples'];
  const pages = readdirSync(path.join(root, 'docs')).filter((name) => name.endsWith('.md'));
  const guides = ['README.md', ...pages.map((name) => path.join('docs', name))];
  const sources = sourcesOf(folders, /\.(tsx?|mts|mjs|h|hip|cc|proto)$/);
  sources.delete(path.join('kernels', 'forge', CONTRACT_HEADER));
  const { complaints, counts } = wordComplaints(
    sources,
    new Map(guides.map((file) => [file, readFileSync(path.join(root, file), 'utf8')])),
  );
  console.log(counts);
  return complaints;
}

/** Complaints about subjects of commits; none, and a line that says so, without the history. */
function commitComplaints() {
  const subjects = subjectsSince(root);
  console.log(
    subjects === undefined
      ? `commits: not checked, because there is no git history since ${BASE_COMMIT}`
      : `commits: ${subjects.length} subjects since ${BASE_COMMIT.slice(0, 8)}`,
  );
  return subjectComplaints(subjects ?? []);
}

const cppFiles = [
  'kernels',
  'kernels/forge',
  'kernels/forge/hopper',
  'kernels/hopper',
  'kernels/twins',
  'native',
].flatMap((folder) =>
  readdirSync(path.join(root, folder))
    .filter((name) => /\.(hip|h|cc)$/.test(name) && name !== CONTRACT_HEADER)
    .map((name) => path.join(folder, name)),
);

if (process.argv.includes('--tiers')) {
  for (const file of testFiles(root)) console.log(tiersOf(file).join('+').padEnd(8), file);
  process.exit(0);
}

const results = [
  passes('buf lint', 'buf', ['lint']),
  passes('buf format', 'buf', write ? ['format', '-w'] : ['format', '-d', '--exit-code']),
  holds(breakingComplaints(root)),
  passes('biome', 'biome', ['check', '--error-on-warnings', ...(write ? ['--write'] : [])]),
  typesPass('tsc', 'tsconfig.json'),
  typesPass('tsc of tools', 'tsconfig.tools.json'),
  typesPass('tsc of the page', 'tsconfig.page.json'),
  holds(importComplaints(sourcesOf(['src'], /\.tsx?$/))),
  holds(jsonComplaints(sourcesOf(['src'], /\.tsx?$/))),
  holds(
    lengthComplaints(
      sourcesOf(['src', 'native', 'kernels', 'tools', 'test', 'bench', 'examples'], /\.(tsx?|mjs|mts|py|cc|h|hip)$/),
    ),
  ),
  passes('clang-format', 'clang-format', [
    '--style=file',
    ...(write ? ['-i'] : ['--dry-run', '--Werror']),
    ...cppFiles,
  ]),
  holds(tierComplaints()),
  holds(docsComplaints(root)),
  holds(wordsOfTree()),
  holds(commitComplaints()),
];
const failures = results.filter((passed) => !passed).length;
console.log(`check: ${results.length - failures} of ${results.length} checks passed`);
process.exit(failures === 0 ? 0 : 1);
