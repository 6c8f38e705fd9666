// Script of `npm install`: the addon and the host's kernels that the package brings are used as they are where they run here;
// where not, they are compiled, which needs g++. In a checkout all is the build's affair (tools/prepare.mjs, `npm run build`).
import { execFileSync } from 'node:child_process';
import { existsSync, rmSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const run = (...args) => execFileSync(process.execPath, args, { cwd: root, stdio: 'inherit' });
const fromDist = (file) => import(pathToFileURL(path.join(root, 'dist', 'executor', file)).href);

/** Why the host's kernels are not those that this package launches, or do not run here; undefined when all is well. */
async function whatIsWrong() {
  const [{ openDevice }, { allContracts }, { launchedOn }] = await Promise.all(
    ['load/open-device.js', 'kernels/index.js', 'device/contract.js'].map(fromDist),
  );
  try {
    // Its file is held against the manifest, each kernel against its contract.
    const device = openDevice({ kind: 'host', threads: 1 });
    for (const contract of launchedOn(allContracts, 'host')) device.checkKernel(contract);
    return undefined;
  } catch (error) {
    return /** @type {Error} */ (error).message;
  }
}

if (existsSync(path.join(root, 'src'))) process.exit(0);
process.env.JOBS ??= 'max';
run(path.join(path.dirname(fileURLToPath(import.meta.resolve('node-gyp-build'))), 'bin.js'));
const wrong = await whatIsWrong();
if (wrong !== undefined) {
  console.error(`install: compiling the kernels of the host: ${wrong}`);
  // Not even what is what it was built as: it does not run here.
  rmSync(path.join(root, 'build', 'kernels', 'host'), { recursive: true, force: true });
  run(path.join(root, 'tools', 'build-kernels.mjs'), '--target', 'host');
}
run(path.join(root, 'tools', 'cache-code.mjs'));
