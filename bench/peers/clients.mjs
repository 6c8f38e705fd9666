// Tries the HTTP API with the clients that people have, as npm publishes them, and writes docs/clients.md's table:
//
//   node bench/peers/clients.mjs [--only NAME,NAME] [--write]
//
// Coding agents (Claude Code, Codex CLI) edit a file through tool calls over five requests; client libraries complete a text,
// stream it, call a tool over two turns, get structured output and cancel. Each also streams while the executor is killed twice
// (kill -9): the text must be the same. Everything but the executor is real; that one says what a script has. Needs
// `npm run build:ts` and the network for the packages of clients/package.json; without it the run is skipped. Run from the
// repository root.
import { execFileSync, spawn } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { benchArguments } from '../arguments.mjs';
import { AGENTS, call } from './clients/agents.mjs';
import { startStack } from './clients/stack.mjs';

const { values: options } = benchArguments(import.meta.url, {
  options: { only: { type: 'string' }, write: { type: 'boolean', default: false } },
});
const root = process.cwd();
const scratch = path.join(os.tmpdir(), 'rocmforge-clients');
const source = path.join(root, 'bench/peers/clients');
const { dependencies } = JSON.parse(readFileSync(path.join(source, 'package.json'), 'utf8'));
const FEATURES = ['text', 'stream', 'tools', 'structured', 'cancel'];
const STEP_MS = 3;
const AGENT_LIMIT_MS = 120_000;

const ANSWER = JSON.stringify({ answer: 'It is long enough to be killed twice while it is on its way. '.repeat(4) });
/** Each library by the package whose version counts. */
const LIBRARIES = {
  'openai (chat)': 'openai',
  'openai (responses)': 'openai',
  '@anthropic-ai/sdk': '@anthropic-ai/sdk',
  '@openai/agents': '@openai/agents',
  '@ai-sdk/openai': '@ai-sdk/openai',
  '@ai-sdk/anthropic': '@ai-sdk/anthropic',
  '@ai-sdk/openai-compatible': '@ai-sdk/openai-compatible',
  'ChatOpenAI (LangChain)': '@langchain/openai',
  'ChatAnthropic (LangChain)': '@langchain/anthropic',
  'ChatOllama (LangChain)': '@langchain/ollama',
  ollama: 'ollama',
  'OpenAI (LlamaIndex)': 'llamaindex',
  Instructor: '@instructor-ai/instructor',
};

/** Libraries that name the tool which must be called: nothing may come before such a call. */
const NAMING = new Set(['Instructor']);

/** Builds the doubles, and installs the clients. @returns why they cannot be tried */
function prepare() {
  const built = path.join(root, 'build/bench');
  // The compiler would take what it has written for sources.
  rmSync(built, { recursive: true, force: true });
  const compiler = path.join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  const args = ['-p', 'tsconfig.json', '--noEmit', 'false', '--outDir', built, '--rootDir', '.'];
  execFileSync(process.execPath, [compiler, ...args], { cwd: root, stdio: 'inherit' });
  cpSync(path.join(root, 'package.json'), path.join(built, 'package.json'));
  mkdirSync(scratch, { recursive: true });
  for (const name of ['package.json', 'library.mjs']) cpSync(path.join(source, name), path.join(scratch, name));
  try {
    execFileSync('npm', ['install', '--no-audit', '--no-fund', '--silent'], { cwd: scratch, stdio: 'pipe' });
  } catch (error) {
    return `the packages cannot be installed: ${
      String(error.stderr ?? error.message)
        .trim()
        .split('\n')[0]
    }`;
  }
  return undefined;
}

/**
 * Runs a program to its end.
 *
 * @param {string} program @param {readonly string[]} args
 * @param {{ cwd?: string, env?: NodeJS.ProcessEnv, onData?: (text: string) => void, limitMs?: number }} [how]
 */
function run(program, args, { cwd = scratch, env = process.env, onData = () => undefined, limitMs = 60_000 } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
    let [output, errors] = ['', ''];
    const timer = setTimeout(() => child.kill('SIGKILL'), limitMs);
    child.stdout.on('data', (data) => {
      output += data;
      onData(String(data));
    });
    child.stderr.on('data', (data) => {
      errors += data;
    });
    child.on('close', (code) => {
      clearTimeout(timer);
      if (code === 0) resolve(output);
      else reject(new Error(`${program} ended with ${code}: ${(errors || output).trim().slice(-600)}`));
    });
  });
}

/** @param {boolean} holds @param {string} what */
function check(holds, what) {
  if (!holds) throw new Error(what);
}

/** A client has no such feature. */
class NotOffered extends Error {}

/** A library's feature in a process of its own. @param {(text: string) => void} [onData] */
async function library(name, feature, base, onData) {
  const output = await run(process.execPath, ['library.mjs', name, feature, base], { onData });
  const { result, missing } = JSON.parse(output.trim().split('\n').at(-1));
  if (missing) throw new NotOffered();
  return result;
}

/** Kills the executor when the stream has had so many chunks. */
function killer(stack, at) {
  let chunks = 0;
  const kills = [];
  return {
    kills,
    onData: (text) => {
      for (const line of text.split('\n')) {
        if (line !== 'chunk') continue;
        chunks += 1;
        if (at.includes(chunks)) kills.push(stack.kill());
      }
    },
  };
}

const CHECKS = {
  text: (result) => check(result === ANSWER, `the text is ${result}`),
  stream: (result) => check(result === ANSWER, `the text is ${result}`),
  tools: ({ called, said }) => {
    const args = typeof called.arguments === 'string' ? JSON.parse(called.arguments) : called.arguments;
    check(called.name === 'record' && args.answer === 'yes', `the call is ${JSON.stringify(called)}`);
    check(said === 'Recorded.', `the last turn is ${said}`);
  },
  structured: (result) => check(typeof result.answer === 'string', `the object is ${JSON.stringify(result)}`),
  cancel: ({ aborted }) => check(aborted, 'the stream had ended before it was cancelled'),
};

async function tryLibrary(name) {
  const row = { client: name, version: dependencies[LIBRARIES[name]] };
  const called = call('record', { answer: 'yes' }, NAMING.has(name) ? '' : undefined);
  const stack = await startStack([ANSWER, called, 'Recorded.'], STEP_MS);
  const attempt = async (feature, go) => {
    try {
      row[feature] = (await go()) ?? 'yes';
    } catch (error) {
      row[feature] = error instanceof NotOffered ? '–' : 'no';
      if (error instanceof NotOffered) return;
      failures.push(`${name}, ${feature}: ${error.message}`);
    }
  };
  try {
    for (const feature of FEATURES)
      await attempt(feature, async () => CHECKS[feature](await library(name, feature, stack.base)));
    await attempt('kills', async () => {
      const { kills, onData } = killer(stack, [5, 60]);
      CHECKS.stream(await library(name, 'stream', stack.base, onData));
      await Promise.all(kills);
      check(kills.length === 2, `the executor was killed ${kills.length} times, not 2`);
    });
  } finally {
    await stack.stop();
  }
  return row;
}

/** Ends what an agent left running, as Cline its hub. */
function endDaemons() {
  for (const pid of readdirSync('/proc').filter((entry) => /^\d+$/.test(entry))) {
    try {
      const [program] = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
      if (program?.startsWith(path.join(scratch, 'node_modules'))) process.kill(Number(pid), 'SIGKILL');
    } catch {
      // It has ended, or is another user's.
    }
  }
}

async function tryAgent(name) {
  const agent = AGENTS[name];
  const row = { client: name, version: dependencies[agent.package] };
  const folder = path.join(scratch, 'agent');
  const file = path.join(folder, 'note.txt');
  const stack = await startStack(agent.turns(file), STEP_MS);
  const edit = async () => {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(path.join(folder, 'home'), { recursive: true });
    const { program, args, env } = agent.start(stack.base, folder);
    const all = { PATH: process.env.PATH, HOME: path.join(folder, 'home'), ...env };
    const agentRun = (given) =>
      run(path.join(scratch, 'node_modules/.bin', program), given, { cwd: folder, env: all, limitMs: AGENT_LIMIT_MS });
    if (agent.prepare) await agentRun(agent.prepare(stack.base));
    const begun = performance.now();
    const said = await agentRun(args);
    check(existsSync(file) && readFileSync(file, 'utf8') === 'one\nthree\n', 'the file is not edited');
    return { said: said.trim(), ms: performance.now() - begun };
  };
  try {
    const { said, ms } = await edit();
    const later = stack.cached.slice(1 + (agent.apart ?? 0));
    const isCached = later.length >= 4 && later.every((count) => count > 0);
    check(isCached, `cached tokens by request: ${stack.cached.join(', ')}`);
    Object.assign(row, { edit: 'yes', requests: stack.cached.length, cached: stack.cached.join(', ') });
    const kills = [0.45, 0.75].map(
      (share) => new Promise((resolve) => setTimeout(() => resolve(stack.kill()), share * ms)),
    );
    const again = await edit();
    await Promise.all(kills);
    check(again.said === said, `the text is ${again.said}, not ${said}`);
    row.kills = 'yes';
  } catch (error) {
    failures.push(`${name}: ${error.message}`);
    row[row.edit === 'yes' ? 'kills' : 'edit'] = 'no';
  } finally {
    endDaemons();
    await stack.stop();
  }
  return row;
}

/** @param {readonly string[]} columns @param {readonly object[]} rows */
const table = (columns, rows) =>
  [columns, columns.map(() => '---'), ...rows.map((row) => columns.map((column) => row[column] ?? ''))]
    .map((cells) => `| ${cells.join(' | ')} |`)
    .join('\n');

const missing = prepare();
if (missing !== undefined) {
  console.log(`skipped: ${missing}`);
  process.exit(0);
}
/** @type {string[]} */
const failures = [];
const wanted = (name) => options.only === undefined || options.only.split(',').some((part) => name.includes(part));
const agents = [];
for (const name of Object.keys(AGENTS).filter(wanted)) agents.push(await tryAgent(name));
const libraries = [];
for (const name of Object.keys(LIBRARIES).filter(wanted)) libraries.push(await tryLibrary(name));
const tables = [
  table(['client', 'version', 'edit', 'requests', 'cached', 'kills'], agents),
  table(['client', 'version', ...FEATURES, 'kills'], libraries),
];
console.log(tables.join('\n\n'));
for (const failure of failures) console.error(failure);
if (options.write) {
  const page = path.join(root, 'docs/clients.md');
  const written = readFileSync(page, 'utf8').replace(
    /(<!-- clients -->)[\s\S]*(<!-- end -->)/,
    (_all, begin, end) => `${begin}\n\n${tables.join('\n\n')}\n\n${end}`,
  );
  writeFileSync(page, written);
}
process.exit(failures.length === 0 ? 0 : 1);
