// Builds what is not a kernel: the addon, and beside it the generated code of proto/, dist/ and the chat page. A core would
// otherwise wait: TypeScript is compiled in a tenth of the addon's time.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));

/** Runs programs of Node one after another. @param {string[][]} programs */
async function inOrder(...programs) {
  for (const args of programs) {
    const [status] = await once(spawn(process.execPath, args, { cwd: root, stdio: 'inherit' }), 'exit');
    if (status !== 0) throw new Error(`${args[0]} failed`);
  }
}

const results = await Promise.allSettled([
  inOrder(['tools/build-native.mjs']),
  inOrder(
    ['tools/build-proto.mjs'],
    ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json'],
    ['tools/finish-dist.mjs'],
    ['tools/build-page.mjs'],
  ),
]);
const failed = results.flatMap((result) => (result.status === 'rejected' ? [result.reason.message] : []));
for (const message of failed) console.error(`build: ${message}`);
process.exit(failed.length === 0 ? 0 : 1);
