// Writes the code caches of dist/bundle/program.cjs: what V8 made of the functions that an executor and a gateway run until
// their first tokens. Node then compiles none of them at a start. A cache is for one version of V8: where this fails, or Node is
// another one later, commands start as they do without.
//
//   node tools/cache-code.mjs          all, from a gateway and an executor that serve one request, and from --help
//   node tools/cache-code.mjs ARGS...  runs this command, and writes its cache at its end or at SIGUSR2
//   node tools/cache-code.mjs --check executor|gateway|other
//                                      ends with 1 where V8 does not take that cache
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { setFlagsFromString } from 'node:v8';

const self = fileURLToPath(import.meta.url);
const root = path.dirname(path.dirname(self));
const { cachedCodeOf, cacheFile, ProgramScript } = await import('../dist/cli/program-script.js');
const [command, ...args] = process.argv.slice(2);

const code = /** @type {import('../dist/cli/program-script.js').CachedCode} */ (args[0]);
// In a process of its own: V8 remembers what it has compiled, and then takes any cache.
if (command === '--check') process.exitCode = new ProgramScript(code).isCached ? 0 : 1;
else if (command === undefined) await cacheAll();
else await runCommand();

async function runCommand() {
  process.argv = [process.execPath, path.join(root, 'dist', 'cli', 'main.js'), command, ...args];
  const code = cachedCodeOf(command);
  rmSync(cacheFile(code), { force: true });
  const script = new ProgramScript(code);
  process.on('exit', () => {
    // V8 rejects what was written with other flags than a process begins with, and a gateway sets this one.
    setFlagsFromString('--heap-growing-percent=0');
    // Processes that start meanwhile see a whole file or none.
    const part = `${cacheFile(code)}.${process.pid}`;
    writeFileSync(part, script.createCache());
    renameSync(part, cacheFile(code));
  });
  process.on('SIGUSR2', () => process.exit());
  await script.run();
}

async function cacheAll() {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-cache-'));
  const executor = path.join(folder, 'executor.sock');
  const gateway = path.join(folder, 'gateway.sock');
  const model = path.join(root, 'models', 'demo.gguf');
  /** @type {import('node:child_process').ChildProcess[]} */
  const children = [];
  /** @param {string[]} programAndArgs */
  const start = (...programAndArgs) => {
    const env = { ...process.env, ROCMFORGE_LOG_LEVEL: 'error' };
    const child = spawn(process.execPath, programAndArgs, { stdio: ['ignore', 'ignore', 'inherit'], env });
    children.push(child);
    return child;
  };
  const timeout = setTimeout(() => {
    for (const child of children) child.kill('SIGKILL');
  }, 60_000);
  /** @param {import('node:child_process').ChildProcess} child @param {string} socket */
  const listens = async (child, socket) => {
    while (!existsSync(socket)) {
      if (child.exitCode !== null || child.signalCode !== null) throw new Error(`${child.spawnargs[2]} does not start`);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  };
  try {
    const first = start(self, 'executor', '--device', 'host', '--listen', `unix:${executor}`);
    await listens(first, executor);
    const serve = ['serve', '--executor', `unix:${executor}`, '--model', model, '--listen', `unix:${gateway}`];
    const second = start(self, ...serve, '--state-dir', folder);
    await listens(second, gateway);
    const request = [path.join(root, 'dist', 'cli', 'main.js'), 'generate', '--address', `unix:${gateway}`];
    const [code] = await once(start(...request, '--max-tokens', '4', 'Once'), 'exit');
    if (code !== 0) throw new Error('no request is served');
    await once(start(self, '--help'), 'exit');
    for (const child of [second, first]) {
      const ended = once(child, 'exit');
      child.kill('SIGUSR2');
      await ended;
    }
    for (const code of /** @type {const} */ (['executor', 'gateway', 'other'])) {
      const [rejected] = await once(start(self, '--check', code), 'exit');
      if (rejected !== 0) throw new Error(`V8 does not take the cache of ${code}`);
    }
  } catch (error) {
    console.error(`cache-code: commands start without a code cache: ${error instanceof Error ? error.message : error}`);
  } finally {
    clearTimeout(timeout);
    for (const child of children) child.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  }
}
