// Takes the pictures of the chat page in docs/, and a recording: `rocmforge demo --page` in headless Chromium, with a kill during
// an answer.
// node tools/record-page.mjs
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { animatedWebp } from './record-webp.mjs';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const chromium = ['chromium', 'chromium-browser', 'google-chrome'].find(
  (name) => spawnSync(name, ['--version']).status === 0,
);
if (chromium === undefined) throw new Error('there is no Chromium to take pictures with');
const profile = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-'));
const options = ['--headless=new', '--no-sandbox', '--disable-gpu', '--hide-scrollbars', '--remote-debugging-pipe'];
const browser = spawn(chromium, [...options, `--user-data-dir=${profile}`, 'about:blank'], {
  stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'],
});
const demo = spawn(process.execPath, ['dist/cli/main.js', 'demo', '--page', '--port', '0', '--device', 'host'], {
  cwd: root,
  stdio: ['ignore', 'pipe', 'ignore'],
});

/** @type {Map<number, (message: any) => void>} */
const waiting = new Map();
let rest = '';
browser.stdio[4]?.on('data', (data) => {
  const messages = (rest + data).split('\0');
  rest = messages.pop() ?? '';
  for (const message of messages.map((text) => JSON.parse(text))) waiting.get(message.id)?.(message);
});
let id = 0;
let session;
/** @param {string} method */
async function send(method, params = {}) {
  id += 1;
  const number = id;
  const answered = new Promise((resolve) => waiting.set(number, resolve));
  const message = JSON.stringify({ id: number, method, params, ...(session && { sessionId: session }) });
  /** @type {import('node:stream').Writable} */ (browser.stdio[3]).write(`${message}\0`);
  const { result, error } = await answered;
  if (error !== undefined) throw new Error(`${method}: ${JSON.stringify(error)}`);
  return result;
}

/** @param {string} expression */
async function evaluate(expression) {
  return (await send('Runtime.evaluate', { expression, returnByValue: true, awaitPromise: true })).result.value;
}

/** @param {string} expression */
async function until(expression) {
  for (let i = 0; i < 1200; i += 1) {
    if (await evaluate(expression)) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`never: ${expression}`);
}

/** @param {string} name */
async function picture(name) {
  const { data } = await send('Page.captureScreenshot', { format: 'png' });
  writeFileSync(path.join(root, 'docs', name), Buffer.from(data, 'base64'));
}

/** Size of the recording, pixels, and time between its frames. */
const RECORDED = { width: 760, height: 460 };
const FRAME_MS = 250;
/** Time for which the last frame is shown. */
const LAST_FRAME_MS = 3000;

/** Records the page while something happens. @param {() => Promise<void>} action */
async function record(action) {
  /** @type {{ file: Buffer, at: number }[]} */
  const stills = [];
  let isOver = false;
  const ended = action().finally(() => {
    isOver = true;
  });
  while (!isOver) {
    const at = performance.now();
    const { data } = await send('Page.captureScreenshot', { format: 'webp', quality: 40 });
    const file = Buffer.from(data, 'base64');
    // A picture that is as the one before only makes that one longer.
    if (!stills.at(-1)?.file.equals(file)) stills.push({ file, at });
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, at + FRAME_MS - performance.now())));
  }
  await ended;
  const frames = stills.map(({ file, at }, i) => {
    const next = stills[i + 1];
    return { file, ms: next === undefined ? LAST_FRAME_MS : Math.round(next.at - at) };
  });
  const file = animatedWebp(frames, RECORDED);
  writeFileSync(path.join(root, 'docs', 'page-recovery.webp'), file);
  console.log(`docs/page-recovery.webp: ${frames.length} frames, ${file.length} bytes`);
}

const type = (/** @type {string} */ selector, /** @type {string} */ text) =>
  evaluate(`(() => {
    const field = document.querySelector(${JSON.stringify(selector)});
    Object.getOwnPropertyDescriptor(Object.getPrototypeOf(field), 'value').set.call(field, ${JSON.stringify(text)});
    field.dispatchEvent(new Event('input', { bubbles: true }));
  })()`);
const click = (/** @type {string} */ selector) =>
  evaluate(`document.querySelector(${JSON.stringify(selector)}).click()`);

try {
  const url = await new Promise((resolve) => {
    demo.stdout.on('data', (data) => {
      const [found] = /http:\S+/.exec(String(data)) ?? [];
      if (found !== undefined) resolve(found);
    });
  });
  const { targetId } = await send('Target.createTarget', { url: 'about:blank' });
  session = (await send('Target.attachToTarget', { targetId, flatten: true })).sessionId;
  await send('Emulation.setDeviceMetricsOverride', { width: 1100, height: 640, deviceScaleFactor: 1, mobile: false });
  await send('Page.navigate', { url });
  await until("document.querySelector('#kill') !== null && document.querySelector('#server-view') !== null");
  const tell = async () => {
    await type('#prompt', 'Tell me a story about a brave fox.');
    await until("!document.querySelector('#send')?.disabled");
    await click('#send');
    await until("[...document.querySelectorAll('.message.assistant .content')].at(-1)?.textContent.length > 120");
    await click('#kill');
    await until("document.querySelector('.recovery:not(.is-open)') !== null");
    await until("document.querySelector('#send') !== null");
  };
  await tell();
  await picture('page.png');
  await click('#server-view');
  await until("document.querySelector('.plot') !== null");
  await picture('page-server.png');
  await click('#new-chat');
  await until("document.querySelector('.empty') !== null");
  await send('Emulation.setDeviceMetricsOverride', { ...RECORDED, deviceScaleFactor: 1, mobile: false });
  await click('#settings-button');
  await type('#max_tokens', '120');
  await click('#settings-button');
  await record(tell);
} finally {
  demo.kill('SIGTERM');
  browser.kill('SIGTERM');
  await new Promise((resolve) => browser.once('exit', resolve));
  rmSync(profile, { recursive: true, force: true });
}
