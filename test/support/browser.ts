import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { Readable, Writable } from 'node:stream';

const BROWSERS = ['chromium', 'chromium-browser', 'google-chrome'];
export const browser = BROWSERS.find((name) => spawnSync(name, ['--version']).status === 0);
if (browser === undefined) console.log(`skipped: there is no headless browser (${BROWSERS.join(', ')})`);

type Json = Readonly<Record<string, unknown>>;

interface TraceEvent {
  readonly name: string;
  readonly pid: number;
  readonly tid: number;
  /** Microseconds by the clock, and of CPU time. */
  readonly dur?: number;
  readonly tdur?: number;
}

interface Message {
  readonly id?: number;
  readonly sessionId?: string;
  readonly method?: string;
  readonly params?: Json;
  readonly result?: Json;
  readonly error?: unknown;
}

/** A headless browser, driven by DevTools' protocol over a pipe. Its tabs share storage. */
export class Browser {
  private id = 0;
  private readonly waiting = new Map<number, (answer: Message) => void>();
  private readonly listeners: ((message: Message) => void)[] = [];

  private constructor(private readonly child: ChildProcess) {
    let rest = '';
    (child.stdio[4] as Readable).on('data', (data) => {
      const messages = (rest + data).split('\0');
      rest = messages.pop() as string;
      for (const text of messages) {
        const message = JSON.parse(text) as Message;
        if (message.id !== undefined) this.waiting.get(message.id)?.(message);
        else for (const listener of this.listeners) listener(message);
      }
    });
  }

  /** @param options of the command line, and preferences of the profile */
  static open({
    args = [],
    preferences,
  }: {
    readonly args?: readonly string[];
    readonly preferences?: object;
  } = {}): Browser {
    const profile = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
    if (preferences !== undefined) {
      mkdirSync(path.join(profile, 'Default'));
      writeFileSync(path.join(profile, 'Default', 'Preferences'), JSON.stringify(preferences));
    }
    const options = ['--headless=new', '--no-sandbox', '--disable-gpu', '--remote-debugging-pipe', ...args];
    const child = spawn(browser as string, [...options, `--user-data-dir=${profile}`, 'about:blank'], {
      stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'],
    });
    return new Browser(child);
  }

  /** A new tab with a page. */
  async tab(url: string): Promise<Page> {
    const { targetId } = await this.send('Target.createTarget', { url: 'about:blank' });
    const { sessionId } = await this.send('Target.attachToTarget', { targetId, flatten: true });
    return Page.inTab(this, targetId as string, sessionId as string, url);
  }

  onEvent(listener: (message: Message) => void): void {
    this.listeners.push(listener);
  }

  async send(method: string, params: object, sessionId?: string): Promise<Json> {
    this.id += 1;
    const { id } = this;
    const answered = new Promise<Message>((resolve) => this.waiting.set(id, resolve));
    const message = { id, method, params, ...(sessionId !== undefined && { sessionId }) };
    (this.child.stdio[3] as Writable).write(`${JSON.stringify(message)}\0`);
    const { result, error } = await answered;
    this.waiting.delete(id);
    if (result === undefined) throw new Error(`${method}: ${JSON.stringify(error)}`);
    return result;
  }

  async close(): Promise<void> {
    const ended = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.kill('SIGTERM');
    await ended;
  }
}

const VIOLATION = 'reportViolation';
const WATCH_VIOLATIONS = `addEventListener('securitypolicyviolation', (event) =>
  ${VIOLATION}(event.disposition + ' ' + event.effectiveDirective + ' ' + event.blockedURI))`;

/** A node of the accessibility tree: what a screen reader has of an element. */
export interface AccessibleNode {
  readonly id: number;
  readonly role: string;
  readonly name: string;
  readonly value: string;
}

/** A page in a tab. */
export class Page {
  /** Addresses of all requests. */
  readonly requests: string[] = [];
  /** Violations of a content security policy, enforced or report-only, as events of the page. */
  readonly violations: string[] = [];
  /** Compressed bytes of all responses. */
  receivedBytes = 0;
  /** Errors: uncaught ones, those of the console, and violations of the content security policy. */
  readonly errors: string[] = [];

  private constructor(
    readonly browser: Browser,
    private readonly targetId: string,
    private readonly session: string,
    /** True if the browser was opened for this page. */
    private ownsBrowser = false,
  ) {
    browser.onEvent(({ sessionId, method, params = {} }) => {
      if (sessionId !== session) return;
      if (method === 'Network.requestWillBeSent') this.requests.push((params.request as { url: string }).url);
      if (method === 'Network.loadingFinished') this.receivedBytes += params.encodedDataLength as number;
      if (method === 'Runtime.bindingCalled' && params.name === VIOLATION)
        this.violations.push(params.payload as string);
      if (method === 'Runtime.exceptionThrown') this.errors.push(JSON.stringify(params.exceptionDetails));
      if (method === 'Log.entryAdded') {
        const { level, text } = params.entry as { level: string; text: string };
        if (level === 'error') this.errors.push(text);
      }
    });
  }

  static async inTab(browser: Browser, targetId: string, session: string, url: string): Promise<Page> {
    const page = new Page(browser, targetId, session);
    for (const domain of ['Page', 'Network', 'Runtime', 'Log']) await page.send(`${domain}.enable`, {});
    await page.send('Runtime.addBinding', { name: VIOLATION });
    await page.send('Page.addScriptToEvaluateOnNewDocument', { source: WATCH_VIOLATIONS });
    await page.goto(url);
    return page;
  }

  /** A page in a browser of its own. */
  static async open(url: string): Promise<Page> {
    const page = await Browser.open().tab(url);
    page.ownsBrowser = true;
    return page;
  }

  /** Resolves when the document is there: until then, expressions would be evaluated in the one before it. */
  async goto(url: string): Promise<void> {
    const { loaderId } = await this.send('Page.navigate', { url });
    // Without one only the hash has changed.
    if (loaderId !== undefined) await this.loaded((current) => current === loaderId);
  }

  /** Resolves when the new document is there. */
  async reload(): Promise<void> {
    const before = await this.loaderId();
    await this.send('Page.reload', {});
    await this.loaded((current) => current !== before);
  }

  private async loaded(isNew: (loaderId: unknown) => boolean): Promise<void> {
    while (!isNew(await this.loaderId())) await new Promise((resolve) => setTimeout(resolve, 5));
  }

  /** Identifies the document that is shown. */
  private async loaderId(): Promise<unknown> {
    const { frameTree } = await this.send('Page.getFrameTree', {});
    return (frameTree as { readonly frame: Json }).frame.loaderId;
  }

  /** The value of an expression in the page; of a promise, its value. */
  async evaluate<T>(expression: string): Promise<T> {
    const options = { expression, returnByValue: true, awaitPromise: true };
    const { result, exceptionDetails } = await this.send('Runtime.evaluate', options);
    if (exceptionDetails !== undefined) throw new Error(JSON.stringify(exceptionDetails));
    return (result as { value: T }).value;
  }

  /** The text of the last element that matches; empty if there is none. */
  text(selector: string): Promise<string> {
    return this.evaluate(`[...document.querySelectorAll(${JSON.stringify(selector)})].at(-1)?.textContent ?? ''`);
  }

  /** Number of elements. */
  count(selector: string): Promise<number> {
    return this.evaluate(`document.querySelectorAll(${JSON.stringify(selector)}).length`);
  }

  /** Clicks the last element that matches, as soon as there is one that is not disabled. */
  async click(selector: string): Promise<void> {
    const click = `(() => {
      const element = [...document.querySelectorAll(${JSON.stringify(selector)})].at(-1);
      if (element === undefined || element.disabled) return false;
      element.click();
      return true;
    })()`;
    await this.until(click);
  }

  /** Types a text into a field, whose content it replaces. */
  async fill(selector: string, text: string): Promise<void> {
    const fill = `(() => {
      const field = document.querySelector(${JSON.stringify(selector)});
      if (field === null) return false;
      const prototype = Object.getPrototypeOf(field);
      Object.getOwnPropertyDescriptor(prototype, 'value').set.call(field, ${JSON.stringify(text)});
      field.dispatchEvent(new Event('input', { bubbles: true }));
      field.dispatchEvent(new Event('change', { bubbles: true }));
      return true;
    })()`;
    await this.until(fill);
  }

  /** Presses a key, such as `Enter`, in the element with the focus. */
  async press(key: string): Promise<void> {
    const codes: Readonly<Record<string, number>> = { Enter: 13, Escape: 27, Tab: 9 };
    const event = { key, code: key, windowsVirtualKeyCode: codes[key] ?? 0, ...(key === 'Enter' && { text: '\r' }) };
    await this.send('Input.dispatchKeyEvent', { type: 'keyDown', ...event });
    await this.send('Input.dispatchKeyEvent', { type: 'keyUp', ...event });
  }

  /** Everything that a screen reader can reach, in its order: elements with a role and a name, and texts. */
  async accessible(): Promise<readonly AccessibleNode[]> {
    const { nodes } = await this.send('Accessibility.getFullAXTree', {});
    type Value = { readonly value?: unknown } | undefined;
    type Node = {
      readonly ignored: boolean;
      readonly role: Value;
      readonly name: Value;
      readonly value: Value;
      readonly backendDOMNodeId: number;
    };
    const text = (value: Value) => String(value?.value ?? '');
    return (nodes as readonly Node[])
      .filter(({ ignored, role }) => !ignored && text(role) !== 'InlineTextBox')
      .map(({ backendDOMNodeId, role, name, value }) => ({
        id: backendDOMNodeId,
        role: text(role),
        name: text(name),
        value: text(value),
      }));
  }

  /** Clicks with the mouse where an element is: what covers it gets the click. */
  async clickNode(id: number): Promise<void> {
    await this.send('DOM.scrollIntoViewIfNeeded', { backendNodeId: id });
    const { model } = await this.send('DOM.getBoxModel', { backendNodeId: id });
    const [left = 0, top = 0, , , right = 0, bottom = 0] = (model as { border: number[] }).border;
    const at = { x: (left + right) / 2, y: (top + bottom) / 2, button: 'left', clickCount: 1 };
    for (const type of ['mousePressed', 'mouseReleased']) await this.send('Input.dispatchMouseEvent', { type, ...at });
  }

  /** Waits until an expression is true. */
  async until(expression: string, timeoutMs = 60_000): Promise<void> {
    const end = performance.now() + timeoutMs;
    while (!(await this.evaluate(expression))) {
      if (performance.now() > end)
        throw new Error(`not within ${timeoutMs} ms: ${expression}\n${await this.text('#app')}`);
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
  }

  send(method: string, params: object): Promise<Json> {
    return this.browser.send(method, params, this.session);
  }

  /**
   * Records the tasks of the page's main thread until the function that is returned is called.
   *
   * @returns durations (ms) of the tasks that took longer than the limit by the clock: by it, and in CPU time, which other
   *   processes do not change
   */
  async traceTasks(limitMs: number): Promise<() => Promise<readonly (readonly [wallMs: number, cpuMs: number])[]>> {
    const long: [string, number, number][] = [];
    let mainThread = '';
    const ended = new Promise<void>((resolve) => {
      this.browser.onEvent(({ sessionId, method, params = {} }) => {
        if (sessionId !== this.session) return;
        if (method === 'Tracing.tracingComplete') resolve();
        if (method !== 'Tracing.dataCollected') return;
        for (const { name, pid, tid, dur = 0, tdur = 0 } of params.value as readonly TraceEvent[]) {
          if (name === 'RunTask' && dur > 1000 * limitMs) long.push([`${pid}.${tid}`, dur / 1000, tdur / 1000]);
          // Only the thread that runs scripts of a page has it.
          if (name === 'FunctionCall') mainThread = `${pid}.${tid}`;
        }
      });
    });
    const includedCategories = ['disabled-by-default-devtools.timeline', 'devtools.timeline'];
    await this.send('Tracing.start', { transferMode: 'ReportEvents', traceConfig: { includedCategories } });
    return async () => {
      await this.send('Tracing.end', {});
      await ended;
      if (mainThread === '') throw new Error('the trace has no script');
      return long.filter(([thread]) => thread === mainThread).map(([, wallMs, cpuMs]) => [wallMs, cpuMs]);
    };
  }

  /** Closes the tab, and a browser of its own. */
  async close(): Promise<void> {
    if (this.ownsBrowser) await this.browser.close();
    else await this.browser.send('Target.closeTarget', { targetId: this.targetId });
  }
}
