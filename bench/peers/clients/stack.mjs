// A gateway before a fake executor in a process of its own, which can be killed and comes back, and a proxy that reads what
// the server counts. Run from the repository root: dist/ holds the gateway, build/bench/ the doubles.
import '../../../tools/temporary-folder.mjs';
import { spawn } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { createServer, request as httpRequest } from 'node:http';
import os from 'node:os';
import path from 'node:path';

const root = process.cwd();
/** A token of its own in front of tools and of each result of a call: by their number the executor chooses what it says. */
const MARK = '\u0001';
const TEMPLATE =
  `{% if tools %}${MARK}{% for tool in tools %}{{ tool | tojson }}{% endfor %}{% endif %}` +
  `{% for m in messages %}{% if m.role == 'tool' %}${MARK}{% endif %}[{{ m.role }}]{{ m.content }}` +
  '{% for call in m.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}\n{% endfor %}[assistant]';
/** The vocabulary of test/support/random-model.ts: a token for each byte from 3 on, 2 ends a text. */
const FIRST_BYTE = 3;
const END = 2;
const VOCABULARY = { first: 259, size: 299 };
const CONTEXT = 524_288;

/** @param {string} text */
const spelled = (text) => [...Array.from(Buffer.from(text), (byte) => FIRST_BYTE + byte), END];

/** Resolves when a process says so. @param {import('node:child_process').ChildProcess} child @param {RegExp} word */
const said = (child, word) =>
  new Promise((resolve, reject) => {
    let text = '';
    child.stdout?.on('data', (data) => {
      text += data;
      const match = word.exec(text);
      if (match) resolve(match);
    });
    child.once('exit', (code) => reject(new Error(`ended with ${code}: ${text}`)));
  });

/**
 * @param {readonly string[]} turns what the model says without tools, with tools, and after each result of a call
 * @param {number} stepMs milliseconds of a step, which is a token
 */
export async function startStack(turns, stepMs) {
  const { writeRandomModel } = await import(path.join(root, 'build/bench/test/support/random-model.js'));
  const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-clients-'));
  const model = writeRandomModel({ contextLength: CONTEXT, chatTemplate: TEMPLATE });
  const listen = `unix:${path.join(folder, 'executor.sock')}`;
  const script = { mark: FIRST_BYTE + MARK.charCodeAt(0), scripts: turns.map(spelled) };
  const options = { listen, stepMs, kvBlocks: 80_000, vocabulary: VOCABULARY, script };
  const program = path.join(root, 'build/bench/test/doubles/fake-executor-process.js');
  const startExecutor = async () => {
    const child = spawn(process.execPath, [program, JSON.stringify(options)], { stdio: ['ignore', 'pipe', 'inherit'] });
    await said(child, /listening/);
    return child;
  };
  let executor = await startExecutor();
  const gateway = spawn(
    process.execPath,
    [
      ...[path.join(root, 'dist/cli/main.js'), 'serve', '--model', model, '--executor', listen],
      ...['--listen', '127.0.0.1:0', '--http-listen', '127.0.0.1:0', '--any-model-name', '--model-name', 'demo'],
      ...[
        '--max-context',
        String(CONTEXT),
        '--max-sequences',
        '4',
        '--max-step-tokens',
        '8192',
        '--max-restarts',
        '100',
      ],
    ],
    { stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, ROCMFORGE_LOG_LEVEL: 'error' } },
  );
  const [, port] = await said(gateway, /serving HTTP on http:\/\/127\.0\.0\.1:(\d+)/);
  const proxy = await startProxy(Number(port));
  return {
    base: `http://127.0.0.1:${proxy.port}`,
    /** Of each request that was answered with counts, how many tokens of its prompt were cached. */
    cached: proxy.cached,
    /** kill -9; another executor takes its place. */
    kill: async () => {
      const ended = new Promise((resolve) => executor.once('exit', resolve));
      executor.kill('SIGKILL');
      await ended;
      executor = await startExecutor();
    },
    stop: async () => {
      proxy.stop();
      for (const child of [gateway, executor]) {
        const ended = new Promise((resolve) => child.once('exit', resolve));
        child.kill('SIGTERM');
        await ended;
      }
    },
  };
}

/** Passes everything on, and reads the cached tokens that responses report. @param {number} target */
async function startProxy(target) {
  /** @type {number[]} */
  const cached = [];
  const server = createServer((request, response) => {
    const { method, url: path, headers } = request;
    const passed = httpRequest({ host: '127.0.0.1', port: target, method, path, headers }, (answer) => {
      let tail = '';
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.on('data', (data) => {
        tail = (tail + data).slice(-1 << 20);
        response.write(data);
      });
      answer.on('end', () => {
        const counts = [...tail.matchAll(/"(?:cache_read_input_tokens|cached_tokens)":(\d+)/g)].map(([, count]) =>
          Number(count),
        );
        if (counts.length > 0) cached.push(counts.at(-1) ?? 0);
        response.end();
      });
    });
    passed.on('error', () => response.destroy());
    response.on('close', () => passed.destroy());
    request.pipe(passed);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  const address = /** @type {import('node:net').AddressInfo} */ (server.address());
  return { port: address.port, cached, stop: () => server.closeAllConnections() ?? server.close() };
}
