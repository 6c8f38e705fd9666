// Does what the README tells a newcomer, each of its commands where the README says it runs. Ends with 1 when one fails, when one is
// in the README that this script does not know, or when installing and the demo take more than 30 s of processor time.
//
//   node tools/try-newcomer.mjs [--root FOLDER] [--package FILE.tgz]
//
//   --root     a Debian system without a compiler, which gets Node.js and the package; default: one that debootstrap makes (as root)
//   --package  default: packed from this tree, whose build must be there
//
// Commands of the package run in that system, by chroot; those of a checkout run here, where CI has run `npm ci`; those of a GPU run
// against the HIP device of the tests (tools/build-double.mjs).
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { copyFileSync, cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { childSeconds } from './kernel-objects.mjs';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const { values: options } = parseArgs({ options: { root: { type: 'string' }, package: { type: 'string' } } });
const MOST_SECONDS = 30;
const COMPILERS = ['g++', 'gcc', 'cc', 'clang', 'make', 'python3'];

const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-newcomer-'));
const system = options.root ?? path.join(folder, 'root');
const started = [];
process.on('exit', () => {
  for (const child of started) child.kill('SIGKILL');
  spawnSync('umount', [path.join(system, 'proc')], { stdio: 'ignore' });
  rmSync(folder, { recursive: true, force: true });
});

/** Ends with one line on stderr. */
function fail(message) {
  console.error(`try-newcomer: ${message}`);
  process.exit(1);
}
const say = (message) => console.log(`try-newcomer: ${message}`);

/** Every command in the README's fenced blocks, with the section it is in. */
function commandsOfReadme() {
  const found = [];
  let section = '';
  let block;
  for (const line of readFileSync(path.join(root, 'README.md'), 'utf8').split('\n')) {
    if (line.startsWith('## ')) section = line.slice(3);
    if (line.startsWith('```'))
      block = block === undefined ? [] : void found.push(...commandsOf(block).map((command) => ({ section, command })));
    else block?.push(line);
  }
  return found;
}

/** Lines that end in a backslash go on; a comment is none of the command. Drawings are no commands. */
function commandsOf(lines) {
  const joined = lines
    .join('\n')
    .replaceAll(/\\\n\s*/g, '')
    .split('\n');
  return joined.map((line) => line.replace(/\s+# .*$/, '').trim()).filter((line) => /^(npm|npx|node) /.test(line));
}

/** Runs a command of a shell to its end. @returns what it printed */
function run(command, { cwd = root, env = process.env, input = '', program = '/bin/sh', args = ['-c', command] } = {}) {
  const { status, stdout, stderr } = spawnSync(program, args, {
    cwd,
    env,
    input,
    encoding: 'utf8',
    maxBuffer: 1 << 26,
  });
  if (status !== 0) fail(`${command} ended with ${status}\n${stdout}${stderr}`);
  return stdout;
}

/** A Debian with Node.js, npm and the package's file in /home/newcomer, and no compiler. */
function prepare() {
  if (!existsSync(path.join(system, 'bin'))) run(`debootstrap --variant=minbase bookworm ${system}`);
  const npm = path.dirname(path.dirname(realpathSync(execFileSync('which', ['npm'], { encoding: 'utf8' }).trim())));
  copyFileSync(realpathSync(process.execPath), path.join(system, 'usr', 'local', 'bin', 'node'));
  cpSync(npm, path.join(system, 'usr', 'local', 'lib', 'npm'), { recursive: true });
  for (const name of ['npm', 'npx']) run(`ln -sf ../lib/npm/bin/${name}-cli.js ${system}/usr/local/bin/${name}`);
  for (const file of ['/etc/resolv.conf', '/etc/hosts']) copyFileSync(file, path.join(system, file));
  const home = path.join(system, 'home', 'newcomer');
  rmSync(home, { recursive: true, force: true });
  mkdirSync(home, { recursive: true });
  if (options.package !== undefined) copyFileSync(options.package, path.join(home, path.basename(options.package)));
  else run(`npm pack --ignore-scripts --silent --pack-destination ${home}`);
  run(`mount -t proc proc ${system}/proc`);
  for (const compiler of COMPILERS) {
    if (spawnSync('chroot', [system, '/bin/sh', '-c', `command -v ${compiler}`]).status === 0)
      fail(`${compiler} is in ${system}`);
  }
}

/** Of the registry that this machine uses, and its certificates. */
function registryEnvironment() {
  const certificates = process.env.NODE_EXTRA_CA_CERTS;
  if (certificates !== undefined) copyFileSync(certificates, path.join(system, 'etc', 'extra-ca.pem'));
  const user = path.join(os.homedir(), '.npmrc');
  if (existsSync(user)) copyFileSync(user, path.join(system, 'root', '.npmrc'));
  const proxies = Object.entries(process.env).filter(([name]) => /^(https?|no)_proxy$/i.test(name));
  return {
    ...Object.fromEntries(proxies),
    npm_config_registry: run('npm config get registry').trim(),
    ...(certificates !== undefined && { NODE_EXTRA_CA_CERTS: '/etc/extra-ca.pem' }),
  };
}

/** Runs a command in the prepared system. */
function inSystem(command) {
  const env = { PATH: '/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin', HOME: '/root', ...registryEnvironment() };
  const before = childSeconds();
  const text = run(command, {
    env,
    program: 'chroot',
    args: [system, '/bin/sh', '-c', `cd /home/newcomer && ${command}`],
  });
  return { text, seconds: childSeconds() - before };
}

async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Starts a service, and waits until it says that it serves. */
function serve(command, env = process.env) {
  const child = spawn('/bin/sh', ['-c', `exec ${command}`], { cwd: root, env, stdio: ['ignore', 'pipe', 'ignore'] });
  started.push(child);
  return new Promise((resolve) => {
    let text = '';
    child.stdout.on('data', (data) => {
      text += data;
      if (/^serving .* on /m.test(text)) resolve(child);
    });
    child.once('close', (code) => code !== null && code !== 0 && fail(`${command} ended with ${code}\n${text}`));
  });
}

// Others may use the README's ports here.
const ports = { 50051: await freePort(), 8080: await freePort() };
const local = (command) =>
  Object.entries(ports)
    .reduce((text, [port, free]) => text.replaceAll(`:${port}`, `:${free}`), command)
    // npx asks npm where the command is, and passes no signals on.
    .replace('npx rocmforge', 'node dist/cli/main.js');
const double = {
  ...process.env,
  ROCM_PATH: path.join(root, 'build', 'double'),
  ROCMFORGE_DOUBLE_KERNELS: path.join(root, 'build', 'all-kernels'),
  ROCMFORGE_DOUBLE_ARCH: 'gfx1100',
};
let gateway;

/** How a command is tried, by its section and its beginning; the first that fits. */
const TRIALS = [
  [
    '',
    /^npm install .* && npx rocmforge demo/,
    (command) => {
      prepare();
      const { text, seconds } = inSystem(command);
      if (!/fox/.test(text)) fail(`the demo tells no story: ${text}`);
      say(`installed, and told a story, in ${seconds.toFixed(1)} s of processor time`);
      if (seconds > MOST_SECONDS) fail(`more than ${MOST_SECONDS} s`);
    },
  ],
  [
    '',
    /^npx rocmforge doctor && npx rocmforge verify/,
    (command) => {
      const { text } = inSystem(command);
      if (!/^VERIFIED on /m.test(text)) fail(`no verdict: ${text}`);
    },
  ],
  ['From a checkout', /^npm (ci|test)\b/, () => 'of CI, on a clean checkout (.ci/run)'],
  [
    'Serve and call',
    /rocmforge serve/,
    async (command) => {
      gateway = await serve(local(command));
    },
  ],
  [
    'Serve and call',
    /rocmforge chat/,
    (command) => {
      if (!/\w/.test(run(local(command), { input: 'Tell me a story.\n' }).replace('> ', ''))) fail('chat says nothing');
    },
  ],
  [
    'Serve and call',
    /./,
    (command) => {
      if (!/\w/.test(run(local(command)))) fail(`${command} says nothing`);
    },
  ],
  [
    'On a GPU',
    /^npm run build:kernels/,
    (command) => run(command, { env: { HIPCC: 'clang-19', ...process.env } }) && undefined,
  ],
  [
    'On a GPU',
    /rocmforge doctor/,
    (command) => {
      if (!/test double.*self-test passed/.test(run(local(command), { env: double })))
        fail('doctor runs no kernels on the HIP device');
    },
  ],
  [
    'On a GPU',
    /rocmforge verify/,
    () => 'not on the HIP device of the tests, where it takes minutes; above, on the host',
  ],
  [
    'On a GPU',
    /rocmforge serve/,
    async (command) => {
      const at = `${local(command).replace('model.gguf', 'models/demo.gguf')} --listen 127.0.0.1:${await freePort()}`;
      (await serve(at, double)).kill('SIGTERM');
    },
  ],
];

for (const { section, command } of commandsOfReadme()) {
  const trial = TRIALS.find(([of, pattern]) => of === section && pattern.test(command));
  if (trial === undefined) fail(`nothing here tries "${command}" of "${section}"`);
  const elsewhere = await trial[2](command);
  say(`${elsewhere === undefined ? 'ok  ' : 'left'} ${command}${elsewhere === undefined ? '' : `: ${elsewhere}`}`);
}
gateway?.kill('SIGTERM');
