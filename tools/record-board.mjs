// Records a gateway under load with a real Prometheus while its executor is killed, holds the board and the alert rules against the
// recording, and draws the board's panels from it.
//
//   node tools/record-board.mjs [--seconds 150] [--kills 3] [--hip] [--svg FILE [--png FILE]] [--json FILE]
//
//   --hip   also record a gateway on the HIP device of the tests (tools/build-double.mjs), with files of a card's sensors in place
//           of sysfs: in a mount namespace of its own, which needs root
//
//   --png   of the SVG, by rsvg-convert (Debian's package librsvg2-bin)
//
// Needs the built tree, prometheus and promtool (Debian's package prometheus). Each expression of the board and of the alerts is
// asked of that Prometheus over the whole run; ends with 1 when one has no data, but for those of VACANT, whose reason is printed,
// and when the kills are not to be seen in the panels of restarts, replays and recovery.
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { freePort } from './free-port.mjs';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const { values: options } = parseArgs({
  options: {
    seconds: { type: 'string', default: '150' },
    kills: { type: 'string', default: '3' },
    hip: { type: 'boolean', default: false },
    svg: { type: 'string' },
    png: { type: 'string' },
    json: { type: 'string' },
  },
});
const { plot } = await import(path.join(root, 'dist', 'cli', 'bench', 'plot.js'));
const SCRAPE_SECONDS = 2;
/** Grafana's $__rate_interval: four scrapes. */
const WINDOW = `${4 * SCRAPE_SECONDS}s`;
/** Panels that no recording here has data for, and why. */
const VACANT = new Map(
  options.hip
    ? []
    : ['memory_used_bytes', 'memory_total_bytes', 'temperature_celsius', 'power_watts', 'clock_hertz', 'throttled'].map(
        (name) => [`rocmforge_device_${name}`, 'the host device has none; see --hip'],
      ),
);

const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-board-'));
const children = [];
process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
});
const say = (message) => console.log(`record-board: ${message}`);

/** Starts a program. Resolves with what it wrote when that matches. */
function start(command, args, ready, env = {}) {
  const child = spawn(command, args, { cwd: root, env: { ...process.env, ...env } });
  children.push(child);
  let output = '';
  return new Promise((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (data) => {
        output += data;
        const match = ready.exec(output);
        if (match !== null) resolve({ child, match });
      });
    }
    child.on('close', (code) => reject(new Error(`${command} ended with ${code}: ${output.slice(-2000)}`)));
  });
}

const command = path.join(root, 'dist', 'cli', 'main.js');
async function serve(name, device, env, wrapper = []) {
  const [port, metrics] = [await freePort(), await freePort()];
  const args = [
    ...[...wrapper, process.execPath, command, 'serve', '--model', path.join(root, 'models', 'demo.gguf')],
    ...['--device', device, '--listen', `127.0.0.1:${port}`, '--metrics-listen', `127.0.0.1:${metrics}`],
    ...['--state-dir', path.join(folder, name), '--max-sequences', '4'],
  ];
  const { match } = await start(args[0], args.slice(1), /^serving /m, { ROCMFORGE_LOG_LEVEL: 'info', ...env });
  say(`${name}: ${match.input.split('\n').find((line) => line.startsWith('serving '))}`);
  return { address: `127.0.0.1:${port}`, metrics: `127.0.0.1:${metrics}` };
}

/**
 * Sensors as amdgpu has them: 67.0 °C of the junction, 212 W, 2.304 GHz, and metrics of version 1.3, whose throttle status gets a bit
 * in the middle of the run and loses it later.
 */
const third = Math.round(Number(options.seconds) / 3);
const throttle = (bit) => `printf '\\170\\0\\1\\3%064d\\${bit}\\0\\0\\0%048d' 0 0 > $card/gpu_metrics`;
const SENSORS = [
  'card=/sys/bus/pci/devices/$(echo "$0" | tr A-Z a-z) && sensors=$card/hwmon/hwmon0',
  'mount -t tmpfs none /sys/bus/pci/devices && mkdir -p $sensors',
  'echo 67000 > $sensors/temp2_input && echo 212000000 > $sensors/power1_average && echo 2304000000 > $sensors/freq1_input',
  throttle(0),
  `(sleep ${third} && ${throttle(1)} && sleep ${third} && ${throttle(0)}) & exec "$@"`,
].join(' && ');

const host = await serve('host', 'host', {});
const gateways = [host];
if (options.hip) {
  const double = {
    ROCM_PATH: path.join(root, 'build', 'double'),
    ROCMFORGE_DOUBLE_KERNELS: path.join(root, 'build', 'all-kernels'),
    ROCMFORGE_DOUBLE_ARCH: 'gfx1100',
  };
  // The bus address of the tests' device.
  gateways.push(await serve('hip', 'hip', double, ['unshare', '--mount', 'sh', '-c', SENSORS, '0000:ff:1f.7']));
}

const prometheusPort = await freePort();
const config = path.join(folder, 'prometheus.yaml');
writeFileSync(
  config,
  JSON.stringify({
    global: { scrape_interval: `${SCRAPE_SECONDS}s`, evaluation_interval: `${SCRAPE_SECONDS}s` },
    rule_files: [path.join(root, 'deploy', 'monitoring', 'alerts.yaml')],
    scrape_configs: [{ job_name: 'rocmforge', static_configs: [{ targets: gateways.map(({ metrics }) => metrics) }] }],
  }),
);
await start(
  'prometheus',
  [
    ...[`--config.file=${config}`, `--storage.tsdb.path=${path.join(folder, 'tsdb')}`],
    `--web.listen-address=127.0.0.1:${prometheusPort}`,
  ],
  /Server is ready/,
);
const version = execFileSync('prometheus', ['--version'], { encoding: 'utf8' })
  .split(' (')[0]
  .replace('prometheus, version', 'Prometheus');
const api = async (query) => {
  const response = await fetch(`http://127.0.0.1:${prometheusPort}/api/v1/${query}`);
  const { status, data, error } = /** @type {any} */ (await response.json());
  if (status !== 'success') throw new Error(`${query}: ${error}`);
  return data;
};
/** The value of a gateway's metric now. */
async function metric(name) {
  const text = await (await fetch(`http://${host.metrics}/metrics`)).text();
  return Number(
    text
      .split('\n')
      .find((line) => line.startsWith(`${name} `))
      ?.slice(name.length),
  );
}

const began = Date.now() / 1000;
const seconds = Number(options.seconds);
const kills = [];
/** Loads of clients on the host, and those of the tests' device in the same time. */
const LOADS = [
  ['--clients', '6', '--prompt-tokens', '32:96', '--tokens', '32:96', '--shared-prefix', '16'],
  ['--clients', '1', '--prompt-tokens', '4:8', '--tokens', '2:4'],
];
const load = gateways.map(({ address }, i) => {
  const args = [command, 'bench', 'serve', '--address', address, '--seconds', String(seconds - 10), '--json'];
  return spawn(process.execPath, [...args, ...LOADS[i]], { stdio: ['ignore', 'pipe', 'inherit'] });
});
children.push(...load);
let report = '';
load[0].stdout.on('data', (data) => {
  report += data;
});
const ended = load.map((child) => new Promise((resolve) => child.once('close', resolve)));

/** The executor of the gateway that is killed: its only child that is one. */
function executorPid() {
  const gateway = children[0].pid;
  const lines = execFileSync('ps', ['-o', 'pid=,args=', '--ppid', String(gateway)], { encoding: 'utf8' }).split('\n');
  const pid = Number.parseInt(lines.find((line) => / executor /.test(line)) ?? '', 10);
  if (!(pid > 0)) throw new Error('the gateway has no executor');
  return pid;
}

const count = Number(options.kills);
for (let kill = 1; kill <= count; kill += 1) {
  await sleep((1000 * (seconds - 30)) / (count + 1));
  const pid = executorPid();
  const running = await metric('rocmforge_num_requests_running');
  process.kill(pid, 'SIGKILL');
  kills.push(Date.now() / 1000);
  say(`${(Date.now() / 1000 - began).toFixed(0)} s: kill -9 of executor ${pid}, ${running} sequences under way`);
}
await Promise.all(ended);
await sleep(3000 * SCRAPE_SECONDS);
const end = Date.now() / 1000;

const board = JSON.parse(readFileSync(path.join(root, 'deploy', 'monitoring', 'grafana.json'), 'utf8'));
const asked = (expr, of = '.*') => expr.replaceAll('$__rate_interval', WINDOW).replaceAll('$instance', of);
const range = async (expr, of) => {
  const query = encodeURIComponent(asked(expr, of));
  return (await api(`query_range?query=${query}&start=${began}&end=${end}&step=${SCRAPE_SECONDS}`)).result;
};
let failures = 0;
let expressions = 0;
/** Looks whether an expression has data at some moment of the run. */
async function hold(what, expr) {
  expressions += 1;
  const result = await range(expr);
  const hasData = result.some(({ values }) => values.some(([, value]) => Number.isFinite(Number(value))));
  if (hasData) return result;
  const [, why] = [...VACANT].find(([name]) => expr.includes(name)) ?? [];
  if (why === undefined) failures += 1;
  say(`${why === undefined ? 'NO DATA' : 'vacant '} ${what}: ${asked(expr)}${why === undefined ? '' : ` (${why})`}`);
  return result;
}

const recorded = [];
for (const panel of board.panels.filter(({ type }) => type === 'timeseries')) {
  const series = [];
  for (const { expr, legendFormat } of panel.targets) {
    const all = await hold(panel.title, expr);
    // Drawn are the gateway whose executor is killed, and the device that has sensors.
    const shown = expr.includes('rocmforge_device') ? all : await range(expr, host.metrics);
    for (const { metric: labels, values } of shown) {
      const name = legendFormat.replace(/\{\{(\w+)\}\}/g, (_, label) => labels[label] ?? '');
      series.push({ name, values: values.map(([at, value]) => [Number((at - began).toFixed(1)), Number(value)]) });
    }
  }
  recorded.push({ title: panel.title, unit: panel.fieldConfig.defaults.unit, series });
}
for (const { expr } of board.annotations.list) await hold('annotation', expr);

// An alert's comparison gives data when it holds; what it compares must give some at any rate.
const { groups } = await api('rules?type=alert');
const alerts = groups.flatMap(({ rules }) => rules);
for (const { name, query, health, lastError } of alerts) {
  await hold(`alert ${name}`, query.replace(/ (==|>|<) [\d.]+$/, ''));
  if (health !== 'ok') {
    failures += 1;
    say(`NOT OK  alert ${name}: ${health} ${lastError ?? ''}`);
  }
}
say(
  `${expressions} expressions of ${board.panels.length} panels and ${alerts.length} alerts asked of ${version}; ${failures} without data`,
);

const first = (title) => recorded.find((panel) => panel.title.startsWith(title));
const sumOf = async (expr) => Number((await api(`query?query=${encodeURIComponent(expr)}`)).result[0]?.value[1]);
const window = `${Math.ceil(end - began) + 60}s`;
const instance = `{instance="${host.metrics}"}`;
const seen = {
  kills: count,
  restarts: await sumOf(
    `sum(max_over_time(rocmforge_executor_restarts_total{instance="${host.metrics}",reason="SIGKILL"}[${window}]))`,
  ),
  replayed: await sumOf(`max_over_time(rocmforge_requests_replayed_total${instance}[${window}])`),
  recoveries: await sumOf(`max_over_time(rocmforge_executor_recovery_seconds_count${instance}[${window}])`),
  recoverySeconds: await sumOf(`max_over_time(rocmforge_executor_recovery_seconds_sum${instance}[${window}])`),
};
const load_ = JSON.parse(report);
say(
  `${count} kills: ${seen.restarts} restarts, ${seen.replayed} sequences computed again, ${seen.recoveries} recoveries of ${(seen.recoverySeconds / seen.recoveries).toFixed(2)} s`,
);
say(
  `${load_.requests} requests of the load ended well, ${JSON.stringify(load_.failed)} did not; ${load_.tokensPerSecond.toFixed(0)} tokens/s`,
);
/** In each of these panels something rises within a few scrapes of each kill. */
for (const title of ['Executors that ended', 'Sequences computed again', 'Recovery']) {
  const values = first(title).series.flatMap((one) => one.values);
  const missing = kills.filter((kill) => {
    const at = kill - began;
    return !values.some(([time, value]) => value > 0 && time >= at - 1 && time <= at + 12);
  });
  say(
    `${missing.length === 0 ? 'ok     ' : 'NOT SEEN'} ${title}: ${kills.length - missing.length} of ${kills.length} kills are seen in the panel`,
  );
  failures += missing.length;
}
if (seen.restarts !== count || Object.keys(load_.failed).length > 0) failures += 1;

const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd: root, encoding: 'utf8' }).trim();
const date = new Date(began * 1000).toISOString().slice(0, 10);
const subtitle =
  `demo model on the host device${options.hip ? ' and on the tests’ HIP device, whose sensors are files' : ''}, 6 clients, scraped every ${SCRAPE_SECONDS} s by ${version}; ` +
  `kill -9 of the executor where a line stands; ${load_.requests} requests ended, none failed; ${date}, ${commit}`;
const COLORS = ['#2563eb', '#dc2626', '#059669', '#d97706', '#7c3aed', '#6b7280', '#0891b2'];
if (options.svg !== undefined) {
  const drawn = recorded
    // Those in which nothing happened are right, and nothing to see.
    .filter(({ series }) => series.some(({ values }) => values.some(([, value]) => value > 0)))
    .filter(({ title }) => title !== 'Release')
    .map(({ title, unit, series }) => ({
      title: `${title}${{ s: ', s', bytes: ', bytes', percentunit: ', share', celsius: ', °C', watt: ', W', hertz: ', Hz', reqps: ', a second' }[unit] ?? ''}`,
      xLabel: 'seconds',
      x: [0, Math.ceil(end - began)],
      moments: kills.map((kill) => ({ at: kill - began, text: '' })),
      series: series.map(({ name, values }, i) => ({
        name: series.length > 4 ? undefined : name.replace(host.metrics, 'host').replace(/^hip \(.*?\)/, 'hip'),
        color: COLORS[i % COLORS.length],
        points: values,
      })),
    }));
  writeFileSync(options.svg, plot('ROCmForge’s board, from recorded data', drawn, { subtitle, columns: 2 }));
  if (options.png !== undefined) execFileSync('rsvg-convert', ['--output', options.png, options.svg]);
}
if (options.json !== undefined)
  writeFileSync(
    options.json,
    `${JSON.stringify({ subtitle, kills: kills.map((kill) => kill - began), seen, recorded })}\n`,
  );
process.exit(failures === 0 ? 0 : 1);
