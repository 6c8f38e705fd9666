import { spawn } from 'node:child_process';
import { createServer } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { packageRoot } from '../../src/shared/package.js';
import { rocmforge, runProgram } from '../support/command-line.js';
import { spelled, startFakeGateway } from '../support/fake-gateway.js';
import { Terminal, terminalIsMissing } from '../support/terminal.js';

const DEMO = 'models/demo.gguf';

/** A mistake on the command line, the first line of the answer, and the line that says what to do. */
const MISTAKES: readonly (readonly [string, string, string | undefined])[] = [
  // A wrong flag is named before the missing one.
  ['serve --modle x', "error: unknown option '--modle'", '(Did you mean --model?)'],
  ['serve -m x', "error: unknown option '-m'", '(Did you mean --model?)'],
  [
    `serve ${DEMO} --port 8000`,
    "error: unknown option '--port'",
    '(Did you mean --http-listen HOST:PORT for HTTP, or --listen HOST:PORT for gRPC?)',
  ],
  [
    'serve --host 0.0.0.0',
    "error: unknown option '--host'",
    '(Did you mean --http-listen HOST:PORT for HTTP, or --listen HOST:PORT for gRPC?)',
  ],
  [
    'serve --port=8000',
    "error: unknown option '--port=8000'",
    '(Did you mean --http-listen HOST:PORT for HTTP, or --listen HOST:PORT for gRPC?)',
  ],
  ['generate --port 8000 hi', "error: unknown option '--port'", '(Did you mean --address HOST:PORT?)'],
  ['serve --api-key secret', "error: unknown option '--api-key'", '(Did you mean --token-file FILE?)'],
  ['serve --ctx-size 4096', "error: unknown option '--ctx-size'", '(Did you mean --max-context?)'],
  ['inspect --ctx-size 4096 x', "error: unknown option '--ctx-size'", '(Did you mean --context?)'],
  ['serve --tensor-parallel-size 2', "error: unknown option '--tensor-parallel-size'", '--gpus 0,1 --split tensor'],
  ['bench serve --duration 3', "error: unknown option '--duration'", '(Did you mean --seconds?)'],
  // An argument that no command takes is named before the missing option, with the option it belongs to.
  [`serve ${DEMO}`, `error: unexpected argument '${DEMO}'; name a model with --model ${DEMO}`, undefined],
  ['serve hf.co/a/b', "error: unexpected argument 'hf.co/a/b'; name a model with --model hf.co/a/b", undefined],
  ['generate one two', "error: unexpected argument 'two'", undefined],
  ['serve', "error: required option '--model <[name=]file>' not specified", undefined],
  ['executor', "error: required option '--listen <address>' not specified", undefined],
  ['admin', "error: required option '--address <address>' not specified", undefined],
  ['bench serve', "error: required option '--address <address>' not specified", undefined],
  ['synth --shape tiny --type F16', "error: required option '-o, --output <file>' not specified", undefined],
  // Addresses in another form.
  ['serve --model x --listen 50051', 'Give the host too, as 127.0.0.1:50051, or a socket as unix:PATH.', undefined],
  ['serve --model x --http-listen :8080', 'Give the host too, as 127.0.0.1:8080, or a socket as unix:PATH.', undefined],
  ['serve --model x --listen http://127.0.0.1:1/', 'Leave "http://" out: give 127.0.0.1:1.', undefined],
  ['generate --address https://gateway:443/v1 hi', 'Leave "https://" out: give gateway:443.', undefined],
  ['chat --address http://127.0.0.1:1', 'Leave "http://" out: give 127.0.0.1:1.', undefined],
  ['bench serve --address grpc://127.0.0.1:1', 'Leave "grpc://" out: give 127.0.0.1:1.', undefined],
  ['serve --model x --listen 127.0.0.1:99999', 'The port must be between 0 and 65535.', undefined],
  ['serve --model x --http-listen [::1]:65536', 'The port must be between 0 and 65535.', undefined],
  ['executor --listen 127.0.0.1:70000', 'The port must be between 0 and 65535.', undefined],
  ['chat --address 127.0.0.1:70000', 'The port must be between 0 and 65535.', undefined],
  ['serve --model x --http-listen unix:', 'Give the path of the socket: unix:PATH.', undefined],
  // Values say what is allowed.
  ['serve --model x --replicas 0', 'Give a whole number from 1 to 64.', undefined],
  ['generate --max-tokens 4294967296 hi', 'Give a whole number from 1 to 2147483647.', undefined],
  ['generate --top-k 4294967296 hi', 'Give a whole number from 0 to 2147483647.', undefined],
  ['generate --temperature 1e300 hi', 'Give a number between -3.4e38 and 3.4e38.', undefined],
  ['serve --model x --idle-unload soon', 'Give a number.', undefined],
  ['serve --model x --kv-memory much', 'Give a size such as 512M or 24GiB.', undefined],
  ['serve --model x --device gpu', 'Allowed choices are auto, hip, cuda, host.', undefined],
  ['serv', "error: unknown command 'serv'", '(Did you mean serve?)'],
  ['run llama3', "error: unknown command 'run'", '(Did you mean chat --model MODEL?)'],
  ['ps', "error: unknown command 'ps'", '(Did you mean admin --address unix:PATH --models?)'],
  ['toString', "error: unknown command 'toString'", undefined],
];

describe('a mistake on the command line is named with what to do', () => {
  it.each(MISTAKES)('%s', async (line, says, advice) => {
    const words = line.split(' ');
    const { code, stderr, stdout } = await rocmforge(...words);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toContain(says);
    if (advice !== undefined) expect(stderr).toContain(advice);
    // Only a line that names no command gets the list of commands.
    const command = words[0] === 'bench' ? 'bench serve' : words[0];
    const help = says.includes('unknown command')
      ? 'rocmforge --help lists the commands'
      : `rocmforge ${command} --help lists`;
    expect(stderr).toContain(help);
  });
});

/** Options that need or exclude others, and names that are not files. */
const REFUSALS: readonly (readonly [string, string])[] = [
  [
    'serve --model Qwen/Qwen3-0.6B-GGUF',
    'MODEL_FILE_UNREADABLE: there is no file Qwen/Qwen3-0.6B-GGUF; for a model of Hugging Face’s hub give --model hf.co/Qwen/Qwen3-0.6B-GGUF',
  ],
  ['pull Qwen/Qwen3-0.6B-GGUF', 'did you mean hf.co/Qwen/Qwen3-0.6B-GGUF?'],
  ['pull qwen3', 'give hf.co/OWNER/REPOSITORY[@REVISION][:QUANTIZATION]'],
  [`serve --model ${DEMO} --executor-ca x`, '--executor-ca requires --executor'],
  [
    `serve --model ${DEMO} --no-prefix-cache --state-snapshots 2`,
    '--state-snapshots requires the prefix cache, which --no-prefix-cache turns off',
  ],
  [
    `serve --model ${DEMO} --executor 127.0.0.1:1 --replicas 2`,
    '--replicas and --gpus cannot be combined with --executor; give --gpus to rocmforge executor',
  ],
  [
    `serve --model ${DEMO} --executor 127.0.0.1:1 --standby 1`,
    '--standby is 1; it must be less than the 1 of --executor',
  ],
  [`serve --model ${DEMO} --executor 127.0.0.1:1 --executor 127.0.0.1:1`, '--executor names an address twice'],
  [`serve --model ${DEMO} --executor 127.0.0.1:1 --idle-unload 1`, '--idle-unload cannot be combined with --executor'],
  [
    `serve --model ${DEMO} --executor 127.0.0.1:1 --max-loaded-models 1`,
    '--max-loaded-models cannot be combined with --executor',
  ],
  [
    `serve --model ${DEMO} --executor 127.0.0.1:1 --load on-command`,
    '--load on-command cannot be combined with --executor',
  ],
  [`serve --model ${DEMO} --gpu 0 --gpus 0,1`, '--gpu cannot be combined with --gpus'],
  [`serve --model ${DEMO} --gpu 0 --device host`, '--gpu cannot be combined with --device host'],
  [`generate --model ${DEMO} --gpu 0 --device host hi`, '--gpu cannot be combined with --device host'],
  [`bench --model ${DEMO} --gpu 0 --device host`, 'a GPU cannot be selected with --device host'],
  ['executor --listen unix:/x --gpus 0 --device host', 'a GPU cannot be selected with --device host'],
  [`serve --model ${DEMO} --admin-listen unix:`, 'unix: has no path; give the path of the socket, unix:PATH'],
  [
    `serve --model ${DEMO} --cors-origins foo`,
    '--cors-origins foo is not the origin of a web page; give SCHEME://HOST',
  ],
  [`serve --model ${DEMO} --gpus 0,1 --split layer --replicas 2`, '--replicas cannot be combined with --split'],
  [`serve --model ${DEMO} --gpus 0,1 --replicas 3`, '--replicas is 3, but --gpus names 2; leave --replicas out'],
  [`serve --model ${DEMO} --gpus 0,1 --device host`, '--gpus cannot be combined with --device host'],
  [
    `serve --model ${DEMO} --device host --max-context 100000`,
    `--max-context 100000 is more than the context of ${DEMO}, 1024`,
  ],
  [`serve --model ${DEMO} --device host --max-sequences 5000`, '--max-sequences is 5000; it must be from 1 to 4096'],
  [
    `serve --model ${DEMO} --device host --max-step-tokens 2 --max-sequences 3 --max-context 16 --listen nonsense`,
    '"nonsense" is not an address; use HOST:PORT, such as 127.0.0.1:50051, or unix:PATH',
  ],
  [
    `serve --model ${DEMO} --http-listen 127.0.0.1:80:80`,
    '"127.0.0.1:80:80" is not an address; use HOST:PORT, such as 127.0.0.1:50051, or unix:PATH',
  ],
  ['executor --device host --insecure --listen 127.0.0.1:80:80', '"127.0.0.1:80:80" is not an address; use HOST:PORT'],
  [
    `serve --model ${DEMO} --listen 127.0.0.1:4711 --http-listen 127.0.0.1:4711`,
    '--listen and --http-listen use one address, 127.0.0.1:4711; give each server its own',
  ],
  [`serve --model ${DEMO} --token-file /nowhere/tokens`, 'INVALID_OPTION: --token-file /nowhere/tokens does not exist'],
  [
    `serve --model ${DEMO} --chat-template /nowhere/t.jinja`,
    'INVALID_OPTION: --chat-template /nowhere/t.jinja does not exist',
  ],
  ['chat --address 127.0.0.1:1 --ca /nowhere/ca.pem', 'INVALID_OPTION: --ca /nowhere/ca.pem does not exist'],
  ['chat --address 127.0.0.1:1 --tools /nowhere/tools', 'INVALID_OPTION: --tools /nowhere/tools does not exist'],
  [
    `serve --model ${DEMO} --device host --listen 192.0.2.1:50051`,
    'INVALID_OPTION: cannot listen on 192.0.2.1:50051: this machine does not have that address; use 127.0.0.1',
  ],
  [
    `serve --model ${DEMO} --device host --admin-listen unix:/nowhere/at/all.sock`,
    'cannot listen on unix:/nowhere/at/all.sock: the folder of the socket file does not exist; create it first',
  ],
  [`generate --address 127.0.0.1:1 --cert x hi`, '--cert and --key require --ca'],
  ['generate hi', 'give --model, to load a model for this command, or --address, to use a running gateway'],
  ['synth --shape x --type F16 -o x', '--shape x is unknown; give one of llama-3.1-8b, '],
  ['synth --shape tiny --type F17 -o x', '--type F17 is unknown; give one of '],
];

describe('options that need or exclude others are named as they were typed', () => {
  it.each(REFUSALS)('%s', async (line, says) => {
    const { code, stderr, stdout } = await rocmforge(...line.split(' '));
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toContain(says);
  });
});

it('inspect has its own help for --cpu-experts: its --fit is a report', async () => {
  const { stdout } = await rocmforge('inspect', '--help');
  const help = stdout.replace(/\s+/g, ' ');
  expect(help).toContain('whose routed experts stay in host memory (default: as few as fit)');
  expect(help).not.toContain('default: by --fit');
});

describe('an environment variable with an unknown log level is named, in one line', () => {
  it.each([
    `serve --model ${DEMO} --device host`,
    'executor --device host --listen 127.0.0.1:0 --insecure',
    `generate --model ${DEMO} --device host hi`,
    'doctor',
    `inspect ${DEMO}`,
  ])('%s', async (line) => {
    const main = path.join(packageRoot, 'dist', 'cli', 'main.js');
    const ended = await runProgram(process.execPath, [main, ...line.split(' ')], '', { ROCMFORGE_LOG_LEVEL: 'loud' });
    expect(ended).toEqual({
      code: 1,
      stdout: '',
      stderr:
        'rocmforge: INVALID_OPTION: the environment variable ROCMFORGE_LOG_LEVEL is "loud"; allowed: trace, debug, info, ' +
        'warn, error, fatal, silent\n',
    });
  });
});

describe('an address at which no gateway answers is named with why', () => {
  const http = createServer((_, response) => response.end('{}'));
  const silent = createTcpServer((socket) => socket.destroy());
  let httpAddress = '';
  let closingAddress = '';

  beforeAll(async () => {
    for (const server of [http, silent]) await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    const of = ({ port }: AddressInfo) => `127.0.0.1:${port}`;
    httpAddress = of(http.address() as AddressInfo);
    closingAddress = of(silent.address() as AddressInfo);
  });
  afterAll(() => {
    http.close();
    silent.close();
  });

  it.each(['generate', 'chat', 'bench serve'])('%s', async (command) => {
    const words = command.split(' ');
    const prompt = command === 'generate' ? ['hi'] : [];
    const said = async (address: string) => (await rocmforge(...words, '--address', address, ...prompt)).stderr;
    expect(await said('127.0.0.1:1')).toBe(
      'rocmforge: GATEWAY_UNAVAILABLE: no gateway answers at 127.0.0.1:1: is a gateway running there? Start one with ' +
        'rocmforge serve, or correct the address\n',
    );
    expect(await said(httpAddress)).toBe(
      `rocmforge: GATEWAY_UNAVAILABLE: no gateway answers at ${httpAddress}: ${httpAddress} does not speak gRPC. It may be ` +
        "the gateway's HTTP port (--http-listen): give the gRPC port (--listen)\n",
    );
    expect(await said(closingAddress)).toContain('it closed the connection; if it serves TLS, give --ca');
  });

  it('admin', async () => {
    const { stderr } = await rocmforge('admin', '--address', 'unix:/nonexistent/admin.sock');
    expect(stderr).toContain('no gateway answers at unix:/nonexistent/admin.sock: is a gateway running there?');
  });
});

it.each(['--listen', '--metrics-listen'])('serve says that the address of %s is in use', async (option) => {
  const server = createTcpServer();
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const serve = ['serve', '--model', DEMO, '--device', 'host', '--listen', '127.0.0.1:0'];
  const { stderr } = await rocmforge(...serve, option, address);
  server.close();
  expect(stderr).toContain(
    `ADDRESS_IN_USE: cannot listen on ${address}: it is in use; stop the process that listens there, or use another port`,
  );
});

it.each(['/exit', '/quit', '/bye'])('chat leaves with %s', async (word) => {
  const main = path.join(packageRoot, 'dist', 'cli', 'main.js');
  const args = [main, 'chat', '--model', DEMO, '--device', 'host'];
  const child = spawn(process.execPath, args, { cwd: packageRoot, stdio: ['pipe', 'pipe', 'inherit'] });
  let output = '';
  child.stdout.on('data', (data) => {
    output += data;
  });
  // The input behind the command would be answered if it did not leave.
  child.stdin.end(`${word}\n/help\n`);
  expect(await new Promise((resolve) => child.once('close', resolve))).toBe(0);
  expect(output).not.toContain('/regenerate');
});

it('generate says at a terminal why a text ends early', async (context) => {
  const missing = terminalIsMissing();
  if (missing !== undefined) context.skip(missing);
  const gateway = await startFakeGateway({ script: spelled('So it is.') });
  const generate = (tokens: string) =>
    Terminal.rocmforge(['generate', '--address', gateway.address, '--max-tokens', tokens, 'x']);
  try {
    const cut = generate('3');
    expect(await cut.code).toBe(0);
    expect(cut.shown).toMatch(/^So \r?\n\(stopped after --max-tokens 3; raise it for a longer text\)/);
    const whole = generate('64');
    expect(await whole.code).toBe(0);
    expect(whole.shown).toMatch(/^So it is\.\r?\n$/);
  } finally {
    await gateway.stop();
  }
});
