// Completes dist/ after tsc: bundles the command into one file with its packages, which starts in half of the time that Node
// takes for their 600 files, bundles the programs of worker threads, and makes `bin` executable. The licenses of the packages
// lie beside the bundle.
import { chmodSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const dist = path.join(root, 'dist');
const bundle = path.join(dist, 'bundle');
const WORKERS = ['gateway/api/encode-worker', 'gateway/matching/grammar-worker'];
const common = /** @type {const} */ ({ bundle: true, platform: 'node', target: 'node20.18', logLevel: 'warning' });

/** Packages find the files that they read, such as protos, from where their code lies in node_modules. */
const ownFolders = {
  name: 'own-folders',
  /** @param {import('esbuild').PluginBuild} plugin */
  setup({ onLoad }) {
    onLoad({ filter: /node_modules\/.*\.js$/ }, ({ path: file }) => {
      const source = readFileSync(file, 'utf8');
      if (!/\b__dirname\b/.test(source)) return undefined;
      const name = file.slice(file.lastIndexOf('node_modules/') + 'node_modules/'.length);
      const resolved = `require("node:module").createRequire(moduleUrl).resolve(${JSON.stringify(name)})`;
      return { contents: source.replace(/\b__dirname\b/g, `require("node:path").dirname(${resolved})`), loader: 'js' };
    });
  },
};

// With the code caches of the program before (tools/cache-code.mjs).
rmSync(bundle, { recursive: true, force: true });
const { metafile } = await build({
  ...common,
  entryPoints: [path.join(dist, 'cli', 'program.js')],
  outfile: path.join(bundle, 'program.cjs'),
  format: 'cjs',
  // src/cli/program-script.ts calls it: Node's own wrapper would be a copy of four megabytes at each start.
  banner: {
    js: '(function (exports, require, module, __filename, __dirname) { const moduleUrl = require("node:url").pathToFileURL(__filename).href;',
  },
  footer: { js: '})' },
  define: { 'import.meta.url': 'moduleUrl' },
  // It reads a module of WebAssembly from its own folder.
  external: ['@huggingface/*'],
  // Code from a cache cannot call import(): it becomes require().
  supported: { 'dynamic-import': false },
  minifyWhitespace: true,
  minifySyntax: true,
  metafile: true,
  plugins: [ownFolders],
});
await build({
  ...common,
  entryPoints: Object.fromEntries(WORKERS.map((name) => [path.basename(name), path.join(dist, `${name}.js`)])),
  splitting: true,
  packages: 'external',
  format: 'esm',
  outdir: bundle,
});

/** Folders of the packages in the bundle. */
const packages = new Set(
  Object.keys(metafile.inputs).flatMap((file) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0] ?? []),
);
const notices = [...packages].sort().map((folder) => {
  const { name, version, license } = JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8'));
  const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
  const text = file === undefined ? '' : readFileSync(path.join(folder, file), 'utf8').trim();
  return `${name} ${version} (${license})\n\n${text}\n`;
});
writeFileSync(path.join(bundle, 'licenses.txt'), notices.join(`\n${'-'.repeat(80)}\n\n`));
chmodSync(path.join(dist, 'cli', 'main.js'), 0o755);
