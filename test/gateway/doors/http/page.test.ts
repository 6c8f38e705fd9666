import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startTestGateway, type TestGateway } from '../../../support/gateway.js';
import { baseOf } from '../../../support/http.js';

const BROWSERS = ['chromium', 'chromium-browser', 'google-chrome'];
const browser = BROWSERS.find((name) => spawnSync(name, ['--version']).status === 0);

interface Answer {
  readonly id?: number;
  readonly result?: Readonly<Record<string, unknown>>;
  readonly error?: unknown;
}

/** A page of a headless browser, driven by DevTools' protocol over a pipe. */
class Page {
  private id = 0;
  private session: string | undefined;
  private readonly waiting = new Map<number, (answer: Answer) => void>();

  private constructor(private readonly child: ChildProcess) {
    let rest = '';
    (child.stdio[4] as Readable).on('data', (data) => {
      const messages = (rest + data).split('\0');
      rest = messages.pop() as string;
      for (const message of messages) {
        const answer = JSON.parse(message) as Answer;
        this.waiting.get(answer.id ?? -1)?.(answer);
      }
    });
  }

  static async open(url: string): Promise<Page> {
    const profile = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
    const options = ['--headless=new', '--no-sandbox', '--disable-gpu', '--remote-debugging-pipe'];
    const child = spawn(browser as string, [...options, `--user-data-dir=${profile}`, 'about:blank'], {
      stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'],
    });
    const page = new Page(child);
    const { targetId } = await page.send('Target.createTarget', { url });
    page.session = (await page.send('Target.attachToTarget', { targetId, flatten: true })).sessionId as string;
    return page;
  }

  /** The value of an expression in the page. */
  async evaluate<T>(expression: string): Promise<T> {
    const { result, exceptionDetails } = await this.send('Runtime.evaluate', { expression, returnByValue: true });
    if (exceptionDetails !== undefined) throw new Error(JSON.stringify(exceptionDetails));
    return (result as { value: T }).value;
  }

  async close(): Promise<void> {
    const ended = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.kill('SIGTERM');
    await ended;
  }

  private async send(method: string, params: object): Promise<Readonly<Record<string, unknown>>> {
    this.id += 1;
    const { id } = this;
    const answered = new Promise<Answer>((resolve) => this.waiting.set(id, resolve));
    const message = { id, method, params, ...(this.session && { sessionId: this.session }) };
    (this.child.stdio[3] as Writable).write(`${JSON.stringify(message)}\0`);
    const { result, error } = await answered;
    this.waiting.delete(id);
    if (result === undefined) throw new Error(JSON.stringify(error));
    return result;
  }
}

describe.skipIf(browser === undefined)('the page, in a headless browser', () => {
  let server: TestGateway;
  let page: Page;
  beforeAll(async () => {
    server = await startTestGateway('models/demo.gguf', { httpListen: '127.0.0.1:0', stepDelayMs: 10 });
    page = await Page.open(`${baseOf(server.gateway)}/`);
  }, 60_000);
  afterAll(async () => {
    await page?.close();
    await server.stop();
  });
  const say = (text: string) =>
    page.evaluate(
      `document.getElementById('prompt').value = ${JSON.stringify(text)}; document.getElementById('send').click();`,
    );
  const text = (selector: string) =>
    page.evaluate<string>(`[...document.querySelectorAll('${selector}')].at(-1)?.textContent ?? ''`);

  it('names the model', async () => {
    await expect.poll(() => page.evaluate("document.getElementById('model').textContent")).toBe('demo');
  }, 30_000);

  it('streams an answer, and is stopped', async () => {
    await say('Tell me a long story about a fox.');
    await expect.poll(async () => (await text('.assistant')).length, { timeout: 20_000 }).toBeGreaterThan(20);
    await page.evaluate("document.getElementById('stop').click()");
    await expect.poll(() => text('#state')).toMatch(/\d+ tokens, [\d.]+ tokens\/s \(stopped\)/);
    await expect.poll(() => server.gateway.replica.counts.running).toBe(0);
  }, 30_000);

  it('shows what is refused', async () => {
    await say('x'.repeat(200_000));
    await expect.poll(() => text('.error')).toMatch(/context size/);
  }, 30_000);
});
