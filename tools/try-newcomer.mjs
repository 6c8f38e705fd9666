// Does what the README tells a newcomer, each of its commands where the README says it runs. Ends with 1 when one fails, when one is
// in the README that this script does not know, or when installing and the demo take more than 30 s of processor time.
//
//   node tools/try-newcomer.mjs [--root FOLDER] [--package FILE.tgz] [--clone] [--list]
//
//   --root     a Debian system without a compiler, which gets Node.js and the package; default: one that debootstrap makes (as root)
//   --package  default: packed from this tree, whose build must be there
//   --clone    commands of a checkout run in a clone of HEAD, in a second Debian that gets Node.js and the packages that the README
//              names: minutes of processor time. Without it they run here, where CI has run `npm ci`
//   --list     only say whether each command is known
//
// Commands of the package run in the first system, by chroot; those of a GPU run against the HIP device of the tests
// (tools/build-double.mjs, and its kernels, of this tree).
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { copyFileSync, cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { freePort } from './free-port.mjs';
import { childSeconds } from './kernel-objects.mjs';
import { commandsOfReadme } from './readme-commands.mjs';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const { values: options } = parseArgs({
  options: {
    root: { type: 'string' },
    package: { type: 'string' },
    clone: { type: 'boolean', default: false },
    list: { type: 'boolean', default: false },
  },
});
const MOST_SECONDS = 30;
const COMPILERS = ['g++', 'gcc', 'cc', 'clang', 'make', 'python3'];

const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-newcomer-'));
const HOME = '/home/newcomer';
/** Folders of the package, and of the clone. */
const bare = options.root ?? path.join(folder, 'root');
const second = path.join(folder, 'clone');
const CLONE = `${HOME}/rocmforge`;
const started = new Set();
process.on('exit', () => {
  for (const child of started) stop(child, 'SIGKILL');
  for (const system of [bare, second]) spawnSync('umount', [path.join(system, 'proc')], { stdio: 'ignore' });
  rmSync(folder, { recursive: true, force: true });
});

/**
 * Ends with one line on stderr.
 *
 * @param {string} message
 * @returns {never}
 */
function fail(message) {
  console.error(`try-newcomer: ${message}`);
  process.exit(1);
}
const say = (message) => console.log(`try-newcomer: ${message}`);

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

/** A Debian with these packages, Node.js with its headers as its archive has them, npm and an empty home. */
function makeSystem(system, packages) {
  const include = packages.length === 0 ? '' : `--include=${packages}`;
  if (!existsSync(path.join(system, 'bin'))) run(`debootstrap --variant=minbase ${include} bookworm ${system}`);
  const npm = path.dirname(path.dirname(realpathSync(execFileSync('which', ['npm'], { encoding: 'utf8' }).trim())));
  const local = path.join(system, 'usr', 'local');
  const node = realpathSync(process.execPath);
  copyFileSync(node, path.join(local, 'bin', 'node'));
  const headers = path.join(path.dirname(path.dirname(node)), 'include', 'node');
  cpSync(headers, path.join(local, 'include', 'node'), { recursive: true, dereference: true });
  cpSync(npm, path.join(local, 'lib', 'npm'), { recursive: true });
  for (const name of ['npm', 'npx']) run(`ln -sf ../lib/npm/bin/${name}-cli.js ${local}/bin/${name}`);
  for (const file of ['/etc/resolv.conf', '/etc/hosts']) copyFileSync(file, path.join(system, file));
  rmSync(path.join(system, HOME), { recursive: true, force: true });
  mkdirSync(path.join(system, HOME), { recursive: true });
  run(`mount -t proc proc ${system}/proc`);
}

/** A Debian with the package's file, and no compiler. */
function preparePackage() {
  makeSystem(bare, '');
  const home = path.join(bare, HOME);
  if (options.package !== undefined) copyFileSync(options.package, path.join(home, path.basename(options.package)));
  else run(`npm pack --ignore-scripts --silent --pack-destination ${home}`);
  for (const compiler of COMPILERS) {
    if (spawnSync('chroot', [bare, '/bin/sh', '-c', `command -v ${compiler}`]).status === 0)
      fail(`${compiler} is in ${bare}`);
  }
}

/** A Debian with a clone, and the packages that the README names for one; of a GPU, too. */
function prepareClone() {
  const readme = readFileSync(path.join(root, 'README.md'), 'utf8');
  const named = [/^Debian or Ubuntu with Node 20, (.+):$/m, /\(Debian: `(.+)`, no ROCm needed\)/].map((pattern) => {
    const [, list] = pattern.exec(readme) ?? fail(`the README does not say ${pattern}`);
    return list.split(/, | and | /).join(',');
  });
  makeSystem(second, named.join(','));
  say(`a second system has ${named.join(', and of a GPU ')}`);
  run(`git clone --quiet ${root} ${path.join(second, CLONE)}`);
  for (const name of ['double', 'kernels'])
    cpSync(path.join(root, 'build', name), path.join(second, 'opt', name), { recursive: true });
}

/** A newcomer's environment: nothing of this machine's but how it reaches a registry. */
function environmentIn(system, variables = {}) {
  const certificates = process.env.NODE_EXTRA_CA_CERTS;
  if (certificates !== undefined) copyFileSync(certificates, path.join(system, 'etc', 'extra-ca.pem'));
  const user = path.join(os.homedir(), '.npmrc');
  if (existsSync(user)) copyFileSync(user, path.join(system, 'root', '.npmrc'));
  const proxies = Object.entries(process.env).filter(([name]) => /^(https?|no)_proxy$/i.test(name));
  return {
    PATH: '/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin',
    HOME: '/root',
    ...Object.fromEntries(proxies),
    npm_config_registry: run('npm config get registry').trim(),
    // The headers beside Node, not those that the copied settings name.
    npm_config_nodedir: '/usr/local',
    ...(certificates !== undefined && { NODE_EXTRA_CA_CERTS: '/etc/extra-ca.pem' }),
    ...variables,
  };
}

/** Runs a command in a prepared system. */
function inSystem(system, command, { at = HOME, variables = {}, input = '' } = {}) {
  const env = environmentIn(system, variables);
  const before = childSeconds();
  const text = run(command, {
    env,
    input,
    program: 'chroot',
    args: [system, '/bin/sh', '-c', `cd ${at} && ${command}`],
  });
  return { text, seconds: childSeconds() - before };
}

/** Ends a service and what it started. */
function stop(child, signal) {
  started.delete(child);
  try {
    process.kill(-child.pid, signal);
  } catch {
    // It has ended.
  }
}

/** Starts a service of the checkout, and waits until it says that it serves. */
function serve(command, variables = {}) {
  const child = options.clone
    ? spawn('chroot', [second, '/bin/sh', '-c', `cd ${CLONE} && exec ${command}`], {
        env: environmentIn(second, variables),
        stdio: ['ignore', 'pipe', 'ignore'],
        detached: true,
      })
    : spawn('/bin/sh', ['-c', `exec ${command}`], {
        cwd: root,
        env: { ...process.env, ...variables },
        stdio: ['ignore', 'pipe', 'ignore'],
        detached: true,
      });
  started.add(child);
  return new Promise((resolve) => {
    let text = '';
    child.stdout.on('data', (data) => {
      text += data;
      if (/^serving .* on /m.test(text)) resolve(child);
    });
    child.once('close', (code) => {
      if (started.has(child)) fail(`${command} ended with ${code}\n${text}`);
    });
  });
}

/**
 * Runs a command of the checkout.
 *
 * @param {string} command
 * @param {{ input?: string, variables?: Record<string, string> }} [of]
 * @returns {string} what it printed
 */
function inCheckout(command, { input, variables = {} } = {}) {
  if (!options.clone) return run(command, { input, env: { ...process.env, ...variables } });
  return inSystem(second, command, { at: CLONE, input, variables }).text;
}

// Others may use the README's ports here.
const ports = { 50051: await freePort(), 8080: await freePort() };
const local = (command) => {
  const moved = Object.entries(ports).reduce((text, [port, free]) => text.replaceAll(`:${port}`, `:${free}`), command);
  // Here npx would install the checkout again where npm finds that a file of it has changed.
  return options.clone ? moved : moved.replace('npx rocmforge', 'node dist/cli/main.js');
};
const built = options.clone ? '/opt' : path.join(root, 'build');
const double = {
  ROCM_PATH: path.join(built, 'double'),
  ROCMFORGE_DOUBLE_KERNELS: path.join(built, 'kernels'),
  ROCMFORGE_DOUBLE_ARCH: 'gfx1100',
};
let gateway;

const INSTALL = 'Install it on a machine with a GPU';

/**
 * Trials of commands, by section and beginning; the first that fits. A trial returns where else the command is tried,
 * where it is not tried here.
 *
 * @type {[section: string, pattern: RegExp, trial: (command: string) => string | void | Promise<void>][]}
 */
const TRIALS = [
  [
    INSTALL,
    /^npm install .* && npx rocmforge demo/,
    (command) => {
      preparePackage();
      const { text, seconds } = inSystem(bare, command);
      if (!/fox/.test(text)) fail(`the demo tells no story: ${text}`);
      say(`installed, and told a story, in ${seconds.toFixed(1)} s of processor time`);
      if (seconds > MOST_SECONDS) fail(`more than ${MOST_SECONDS} s`);
    },
  ],
  [
    INSTALL,
    /^npx rocmforge doctor && npx rocmforge verify/,
    (command) => {
      const { text } = inSystem(bare, command);
      if (!/^VERIFIED on /m.test(text)) fail(`no verdict: ${text}`);
    },
  ],
  [
    'Try it',
    /^npm ci && npm run demo$/,
    (command) => {
      if (!options.clone) return 'of CI, on a clean checkout (.ci/run), and of --clone';
      prepareClone();
      const { text, seconds } = inSystem(second, command, { at: CLONE });
      if (!/fox/.test(text)) fail(`the demo tells no story: ${text}`);
      say(`cloned, built, and told a story, in ${seconds.toFixed(0)} s of processor time`);
      return undefined;
    },
  ],
  ['Try it', /^npm test$/, () => 'of CI, on a clean checkout (.ci/run)'],
  [
    'Serve a model',
    /rocmforge serve/,
    async (command) => {
      gateway = await serve(local(command));
    },
  ],
  [
    'Serve a model',
    /rocmforge chat/,
    (command) => {
      if (!/\w/.test(inCheckout(local(command), { input: 'Tell me a story.\n' }).replace('> ', '')))
        fail('chat says nothing');
    },
  ],
  [
    'Serve a model',
    /^curl /,
    (command) => {
      if (options.clone) return 'of a checkout: the second system has no curl';
      if (!/"content":"\w/.test(run(local(command)))) fail(`${command} streams no text`);
      return undefined;
    },
  ],
  [
    'Serve a model',
    /./,
    (command) => {
      if (!/\w/.test(inCheckout(local(command)))) fail(`${command} says nothing`);
    },
  ],
  [
    INSTALL,
    /^npm run build:kernels/,
    (command) => inCheckout(command, { variables: { HIPCC: process.env.HIPCC ?? 'clang-19' } }) && undefined,
  ],
  [
    INSTALL,
    /rocmforge doctor/,
    (command) => {
      if (!/test double.*self-test passed/.test(inCheckout(local(command), { variables: double })))
        fail('doctor runs no kernels on the HIP device');
    },
  ],
  [
    INSTALL,
    /rocmforge verify/,
    (command) => {
      if (!options.clone) return 'of --clone: it takes seven minutes on the HIP device of the tests';
      const text = inCheckout(local(command), { variables: double });
      if (!/^VERIFIED on hip\b/m.test(text)) fail(`no verdict on the HIP device: ${text}`);
      return undefined;
    },
  ],
  [
    INSTALL,
    /rocmforge serve/,
    async (command) => {
      const at = `${local(command).replace('model.gguf', 'models/demo.gguf')} --listen 127.0.0.1:${await freePort()}`;
      stop(await serve(at, double), 'SIGTERM');
    },
  ],
  [
    'Speed next to llama.cpp',
    /rocmforge bench /,
    (command) => {
      // The demo model has no room for 4,096 tokens.
      const short = command.replace('model.gguf', 'models/demo.gguf').replace('512,4096', '64,512');
      if (!/^ +64 .*\n +512 /m.test(inCheckout(local(short)))) fail(`${short} prints no row for each prompt`);
    },
  ],
  ['Speed next to llama.cpp', /^node bench\/gpu/, () => 'on a GPU, next to a build of llama.cpp'],
  ['Speed next to llama.cpp', /^node bench\/peers\/compare/, () => 'by hand: it needs npm ci in bench/peers'],
  ['Speed next to llama.cpp', /^node bench\/peers\/served/, () => 'by hand: its load takes minutes on a CPU'],
];

const planned = commandsOfReadme(root).map(({ section, command }) => {
  const trial = TRIALS.find(([of, pattern]) => of === section && pattern.test(command));
  return { command, attempt: trial?.[2] ?? fail(`nothing here tries "${command}" of "${section}"`) };
});
if (options.list) {
  say(`knows ${planned.length} commands`);
  process.exit();
}
for (const { command, attempt } of planned) {
  const elsewhere = await attempt(command);
  say(`${elsewhere === undefined ? 'ok  ' : 'left'} ${command}${elsewhere === undefined ? '' : `: ${elsewhere}`}`);
}
if (gateway !== undefined) stop(gateway, 'SIGTERM');
