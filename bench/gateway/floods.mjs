// Cost of floods at the servers for the gateway and others' streams: a table of the gateway's memory and of the gaps between a
// stream's tokens, quiet and during each flood.
//
//   npm run build && node bench/gateway/floods.mjs [--seconds 8] [--rounds 3] [--apart] [--only http-pipelined,grpc-ping]
//   npx tsc -p tsconfig.json --noEmit false --outDir build/bench --rootDir . && cp package.json build/bench/
//   node bench/gateway/floods.mjs --step-ms 5 [...]
//
// On the host a generation that a flood begins costs others, as anyone's does: the second form has a fake executor whose steps
// take the same time whatever they hold, so that gaps tell what the gateway lets through.
//
// Floods come from a process of their own; nothing leaves loopback. `--apart` gives them a core (1) on which nothing else
// runs, and all else another (0), so that gaps tell what a flood costs the gateway and not what sending it costs a core.
import '../../tools/temporary-folder.mjs';
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const GRPC_PORT = 23_901;
const HTTP_PORT = 23_902;
const WARM_UP_MS = 2500;
/** Tokens of the demo model: its first one that is a text of its own, and all. */
const DEMO = { first: 300, size: 2816 };

const post = (path, body, more = '') =>
  `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n${more}Content-Length: ${body.length}\r\n\r\n${body}`;
/** Whoever floods is another peer than whoever is measured. */
const localAddress = process.argv[2] === '--flood' ? '127.0.0.2' : '127.0.0.1';
const open = (port) => connect({ port, host: '127.0.0.1', localAddress }).on('error', () => undefined);
const again = (count, start) => {
  for (let i = 0; i < count; i++) {
    const next = () => setTimeout(() => start(next), 1);
    next();
  }
};

// Frames of HTTP/2, by hand: no library sends what these do (RFC 9113, 4.1).
const frame = (type, flags, stream, payload = Buffer.alloc(0)) => {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
};
const PREFACE = Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(4, 0, 0)]);
const literal = (name, value) =>
  Buffer.concat([Buffer.from([0, name.length]), Buffer.from(name), Buffer.from([value.length]), Buffer.from(value)]);
const GENERATE = '/rocmforge.v1.InferenceService/GenerateStream';
const HEADERS = Buffer.concat(
  Object.entries({
    ':method': 'POST',
    ':scheme': 'http',
    ':path': GENERATE,
    ':authority': 'localhost',
    'content-type': 'application/grpc',
    te: 'trailers',
  }).map(([name, value]) => literal(name, value)),
);
/** `text: "Once"` and `stop: {max_tokens: 400, ignore_eos: true}` of a GenerateStreamRequest come from the build's own code. */
const requestBytes = async () => {
  const { GenerateStreamRequest } = await import('../../dist/shared/generated/rocmforge/v1/inference.js');
  const message = GenerateStreamRequest.fromPartial({
    input: { $case: 'text', value: { text: 'Once' } },
    stop: { maxTokens: 400, ignoreEos: true },
  });
  const bytes = Buffer.from(GenerateStreamRequest.encode(message).finish());
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(bytes.length, 1);
  return Buffer.concat([prefix, bytes]);
};
/** Keeps a connection busy with what `bytes` makes for each write. */
const flood = (port, preface, bytes) => (next) => {
  const socket = open(port);
  let turn = 0;
  const write = () => {
    while (!socket.destroyed && socket.write(bytes(turn++)));
  };
  socket.on('connect', () => {
    socket.write(preface);
    write();
  });
  socket.on('drain', () => setImmediate(write));
  socket.on('close', next).resume();
};

const FLOODS = {
  // No flood, to compare those of slow readers with: as many generations, read as they come.
  'streams-read': () =>
    again(32, (next) => {
      const socket = open(HTTP_PORT);
      socket.write(post('/v1/completions', '{"prompt":"Once","max_tokens":400,"ignore_eos":true,"stream":true}'));
      socket.on('close', next).resume();
    }),
  'grpc-streams-read': async () => {
    const bytes = await requestBytes();
    again(32, (next) => {
      const socket = open(GRPC_PORT);
      // All that is sent is taken.
      const window = frame(8, 0, 0, Buffer.from([0x7f, 0, 0, 0]));
      socket.write(Buffer.concat([PREFACE, window, frame(1, 4, 1, HEADERS), frame(0, 1, 1, bytes)]));
      socket.on('close', next).resume();
    });
  },
  'http-slow-readers': () =>
    again(64, (next) => {
      const body = JSON.stringify({ prompt: 'Once', max_tokens: 400, ignore_eos: true, stream: true, logprobs: 5 });
      const socket = open(HTTP_PORT);
      socket.write(post('/v1/completions', body));
      socket.pause();
      socket.on('close', next);
    }),
  'http-slow-senders': () =>
    again(400, (next) => {
      const socket = open(HTTP_PORT);
      socket.write('POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n');
      socket.write(`Content-Length: 100000\r\n\r\n{"prompt":"${'x'.repeat(60_000)}`);
      const timer = setInterval(() => socket.write('x'), 100);
      socket.on('close', () => {
        clearInterval(timer);
        next();
      });
    }),
  'http-small-chunks': () => {
    const head =
      'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n';
    const chunks = '1\r\nx\r\n'.repeat(10_000);
    again(
      8,
      flood(HTTP_PORT, head, () => chunks),
    );
  },
  'http-pipelined': () => {
    const packet = post('/v1/completions', '{"prompt":"Once","max_tokens":1}').repeat(5000);
    again(
      8,
      flood(HTTP_PORT, '', () => packet),
    );
  },
  'http-connections': () =>
    again(200, (next) => {
      const socket = open(HTTP_PORT);
      socket.on('connect', () => socket.end());
      socket.on('close', next).resume();
    }),
  'http-resets': () =>
    again(32, (next) => {
      const socket = open(HTTP_PORT);
      const body = '{"prompt":"Once","max_tokens":400,"ignore_eos":true,"stream":true}';
      socket.write(post('/v1/completions', body), () => setTimeout(() => socket.resetAndDestroy(), 5));
      socket.on('close', next).resume();
    }),
  'grpc-ping': () =>
    again(
      4,
      flood(GRPC_PORT, PREFACE, () => frame(6, 0, 0, Buffer.alloc(8))),
    ),
  'grpc-reset': () =>
    again(
      4,
      flood(GRPC_PORT, PREFACE, (turn) => {
        const stream = 2 * turn + 1;
        return Buffer.concat([frame(1, 4, stream, HEADERS), frame(3, 0, stream, Buffer.from([0, 0, 0, 8]))]);
      }),
    ),
  'grpc-continuation': () => {
    const more = frame(9, 0, 1, literal('x', 'y'.repeat(100)));
    again(
      4,
      flood(GRPC_PORT, Buffer.concat([PREFACE, frame(1, 0, 1, HEADERS)]), () => more),
    );
  },
  'grpc-slow-readers': async () => {
    const bytes = await requestBytes();
    again(32, (next) => {
      const socket = open(GRPC_PORT);
      // No window: nothing of an answer may be sent.
      const settings = frame(4, 0, 0, Buffer.from([0, 4, 0, 0, 0, 0]));
      socket.write(Buffer.concat([PREFACE, settings, frame(1, 4, 1, HEADERS), frame(0, 1, 1, bytes)]));
      socket.on('close', next).resume();
    });
  },
  'grpc-small-frames': () => {
    const one = frame(0, 0, 1, Buffer.from('x'));
    // As much as the first window takes.
    const frames = Buffer.concat(Array.from({ length: 60_000 }, () => one));
    const begin = Buffer.concat([
      PREFACE,
      frame(1, 4, 1, HEADERS),
      frame(0, 0, 1, Buffer.from([0, 0, 16, 0, 0])),
      frames,
    ]);
    again(16, (next) => {
      const socket = open(GRPC_PORT);
      socket.write(begin);
      socket.on('close', next).resume();
    });
  },
};

if (process.argv[2] === '--flood') {
  await FLOODS[process.argv[3]]();
} else {
  const { values } = parseArgs({
    options: {
      seconds: { type: 'string', default: '8' },
      rounds: { type: 'string', default: '1' },
      apart: { type: 'boolean', default: false },
      'step-ms': { type: 'string' },
      only: { type: 'string' },
    },
  });
  // The gateway, its executor and this client: all that is started from here but the floods.
  if (values.apart) execFileSync('taskset', ['-cp', '0', String(process.pid)]);
  const names = values.only?.split(',') ?? Object.keys(FLOODS);
  const unknown = names.find((name) => !(name in FLOODS));
  if (unknown !== undefined) throw new Error(`no flood "${unknown}"; there are ${Object.keys(FLOODS).join(', ')}`);
  await measure({ ...values, names });
}

/** Times between events of streams that one reader has, one after the other. ms */
async function gapsFor(ms) {
  const gaps = [];
  const end = performance.now() + ms;
  const body = JSON.stringify({ prompt: 'Once upon', max_tokens: 500, ignore_eos: true, stream: true, priority: 0 });
  while (performance.now() < end) {
    await new Promise((resolve) => {
      const socket = open(HTTP_PORT);
      socket.write(post('/v1/completions', body, 'Connection: close\r\n'));
      let last = 0;
      socket.on('data', () => {
        const now = performance.now();
        if (last > 0) gaps.push(now - last);
        last = now;
        if (now > end) socket.destroy();
      });
      socket.on('close', resolve);
    });
  }
  gaps.sort((a, b) => a - b);
  return { p50: gaps[Math.floor(gaps.length * 0.5)], p99: gaps[Math.floor(gaps.length * 0.99)], count: gaps.length };
}

/** Each round runs every flood once: of memory the most is told, of gaps the median of the rounds, of both ends of p99's. */
async function measure({ seconds, rounds, apart, names, 'step-ms': stepMs }) {
  const rows = new Map(['quiet', ...names].map((name) => [name, []]));
  for (let round = 0; round < Number(rounds); round++) {
    for (const [name, measured] of rows) measured.push(await measureOne(1000 * Number(seconds), name, apart, stepMs));
  }
  console.log('| | gateway, MB at most | its processor, % | gap p50, ms | p99 | p99 of rounds |');
  console.log('| --- | --- | --- | --- | --- | --- |');
  for (const [name, measured] of rows) {
    const sorted = (key) => measured.map((one) => one[key]).sort((a, b) => a - b);
    const median = (key) => sorted(key)[Math.floor(measured.length / 2)].toFixed(1);
    const p99s = sorted('p99').map((ms) => ms.toFixed(1));
    const cells = [sorted('most').at(-1).toFixed(0), median('processor'), median('p50'), median('p99'), p99s.join(' ')];
    console.log(`| ${[name, ...cells].join(' | ')} |`);
  }
}

/** Each on a gateway of its own, so that nothing of one is another's. */
async function measureOne(ms, name, apart, stepMs) {
  const executor = stepMs === undefined ? undefined : await startFake(Number(stepMs));
  const device = executor === undefined ? ['--device', 'host'] : ['--executor', executor.address];
  const options = ['--model', 'models/demo.gguf', ...device, '--listen', `127.0.0.1:${GRPC_PORT}`];
  const more = ['--http-listen', `127.0.0.1:${HTTP_PORT}`, '--max-sequences', '16'];
  const gateway = spawn(process.execPath, ['dist/cli/main.js', 'serve', ...options, ...more], { stdio: 'ignore' });
  const procfs = (file) => readFileSync(`/proc/${gateway.pid}/${file}`, 'utf8');
  const memory = () => Number(/VmRSS:\s+(\d+)/.exec(procfs('status'))[1]) / 1024;
  // Ticks of 10 ms of user and system (proc(5), fields 14 and 15, counted from behind the name).
  const processorMs = () => {
    const fields = procfs('stat')
      .replace(/^.*\) /, '')
      .split(' ');
    return 10 * (Number(fields[11]) + Number(fields[12]));
  };
  try {
    while (!(await fetch(`http://127.0.0.1:${HTTP_PORT}/health`).catch(() => undefined))?.ok) {
      if (gateway.exitCode !== null) throw new Error(`the gateway ended with ${gateway.exitCode}`);
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    const begin = (flood) => {
      const flooder = [process.execPath, fileURLToPath(import.meta.url), '--flood', flood];
      const [command, ...rest] = apart ? ['taskset', '-c', '1', ...flooder] : flooder;
      return spawn(command, rest, { stdio: 'ignore' });
    };
    // A gateway that has served both servers' clients for a while: what it does for the first time is slow.
    for (const warmUp of ['streams-read', 'grpc-streams-read']) {
      const clients = begin(warmUp);
      await gapsFor(WARM_UP_MS);
      clients.kill('SIGKILL');
    }
    await gapsFor(1000);
    const attacker = name === 'quiet' ? undefined : begin(name);
    let most = 0;
    const timer = setInterval(() => {
      most = Math.max(most, memory());
    }, 100);
    const before = processorMs();
    const gaps = await gapsFor(ms);
    const processor = ((processorMs() - before) / ms) * 100;
    clearInterval(timer);
    attacker?.kill('SIGKILL');
    return { ...gaps, most, processor };
  } finally {
    const ended = gateway.exitCode === null ? new Promise((resolve) => gateway.once('exit', resolve)) : undefined;
    gateway.kill('SIGTERM');
    setTimeout(() => gateway.kill('SIGKILL'), 3000).unref();
    await ended;
    await executor?.stop();
  }
}

/** An executor whose every step takes so long. */
async function startFake(stepMs) {
  const address = `unix:${path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-floods-')), 'executor.sock')}`;
  const processes = await import('../../build/bench/bench/gateway/processes.js');
  const { stop } = await processes.startFake({ listen: address, stepMs, kvBlocks: 20_000, vocabulary: DEMO });
  return { address, stop };
}
