import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { Readable, Writable } from 'node:stream';

const BROWSERS = ['chromium', 'chromium-browser', 'google-chrome'];
export const browser = BROWSERS.find((name) => spawnSync(name, ['--version']).status === 0);
if (browser === undefined) console.log(`skipped: there is no headless browser (${BROWSERS.join(', ')})`);

interface Answer {
  readonly id?: number;
  readonly result?: Readonly<Record<string, unknown>>;
  readonly error?: unknown;
}

/** A page of a headless browser, driven by DevTools' protocol over a pipe. */
export class Page {
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
