import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { browser, Page } from '../../../support/browser.js';
import { type FakeGateway, spelled, startFakeGateway } from '../../../support/fake-gateway.js';
import { startTestGateway, type TestGateway } from '../../../support/gateway.js';
import { ask, baseOf } from '../../../support/http.js';
import { buildPage } from '../../../support/page-files.js';
import { type PageProxy, scriptedDeltas, startPageProxy } from '../../../support/page-proxy.js';

buildPage();

const ANSWER = '# Foxes\n\nA **brave** fox.\n\n```js\nlet a = 1;\n```\n';
const TEMPLATE =
  '{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}';

describe('files of the page', () => {
  let server: FakeGateway;
  beforeAll(async () => {
    server = await startFakeGateway({ httpListen: '127.0.0.1:0' });
  });
  afterAll(() => server.stop());

  it('are compressed, named by their content and allowed nothing from elsewhere', async () => {
    const page = await fetch(`${baseOf(server.gateway)}/`);
    expect(page.headers.get('content-encoding')).toBe('gzip');
    expect(page.headers.get('cache-control')).toBe('no-cache');
    // A page that opened this one, or that it opens, does not reach its window.
    expect(page.headers.get('cross-origin-opener-policy')).toBe('same-origin');
    const policy = page.headers.get('content-security-policy') ?? '';
    expect(policy).toContain("default-src 'none'");
    expect(policy).not.toMatch(/unsafe|https?:|\*/);
    const names = [...(await page.text()).matchAll(/(?:src|href)="([^"]+)"/g)].map(([, name]) => name);
    expect(names.length).toBeGreaterThan(2);
    for (const name of names) {
      const file = await fetch(`${baseOf(server.gateway)}/${name}`);
      expect([name, file.status]).toEqual([name, 200]);
      expect(file.headers.get('cache-control')).toContain('immutable');
      expect(file.headers.get('x-content-type-options')).toBe('nosniff');
    }
  });

  it('are sent as they are to clients without compression', async () => {
    const { text, headers } = await ask(server.gateway, '/', undefined, { headers: { 'accept-encoding': 'identity' } });
    expect(headers.get('content-encoding')).toBeNull();
    expect(text).toContain('<!doctype html>');
  });

  it.each(['/page/none.js', '/page/..%2Fpackage.json', '/page/index.html.gz'])(
    '%s is not one of them',
    async (path) => {
      expect((await ask(server.gateway, path)).status).toBe(404);
    },
  );

  it('do not let pages kill an executor, except in the demo', async () => {
    expect((await ask(server.gateway, '/rocmforge/kill-executor', {})).status).toBe(404);
    expect((await ask(server.gateway, '/rocmforge/page')).json).toEqual({
      version: expect.any(String),
      can_kill_executor: false,
    });
  });
});

describe.skipIf(browser === undefined)('the page, in a headless browser', () => {
  let server: FakeGateway;
  let proxy: PageProxy;
  let page: Page;
  beforeAll(async () => {
    const script = spelled(ANSWER);
    server = await startFakeGateway({
      httpListen: '127.0.0.1:0',
      script,
      stepMs: 5,
      model: { chatTemplate: TEMPLATE },
    });
    proxy = await startPageProxy(baseOf(server.gateway), '/models/');
    page = await Page.open(proxy.url);
  });
  afterAll(async () => {
    await page?.close();
    await proxy?.stop();
    await server.stop();
  });
  /** Does something that requests an answer, and waits for its end. */
  const answered = async (action: () => Promise<void>) => {
    const before = proxy.bodies.length;
    await action();
    await expect.poll(() => proxy.bodies.length).toBeGreaterThan(before);
    await page.until("document.querySelector('#send') !== null && document.querySelector('[aria-busy=true]') === null");
  };
  const send = async (text: string) => {
    await page.fill('#prompt', text);
    await page.click('#send');
  };
  const say = (text: string) => answered(() => send(text));
  const lastBody = () => JSON.parse(proxy.bodies.at(-1) ?? '{}');

  it('streams Markdown below a path prefix, with its numbers', async () => {
    await expect.poll(() => page.text('#model')).toBe(server.gateway.modelName);
    await say('Tell me of foxes.');
    expect(await page.text('.message.user .content')).toBe('Tell me of foxes.');
    expect(await page.text('.message.assistant h3.heading')).toBe('Foxes');
    expect(await page.text('.message.assistant strong')).toBe('brave');
    await expect.poll(() => page.text('.message.assistant .hljs-keyword')).toBe('let');
    const stats = await page.text('.stats');
    expect(stats).toMatch(/[\d.]+ tokens\/s/);
    expect(stats).toMatch(/\d m?s to first token/);
    expect(stats).toContain(`of ${server.gateway.contextLength} (context)`);
    expect(await page.text('h1')).toBe('Tell me of foxes.');
  });

  it('keeps the conversation over a reload', async () => {
    await page.reload();
    await page.until("document.querySelectorAll('.message').length === 2");
    expect(await page.text('.message.assistant strong')).toBe('brave');
  });

  it('regenerates, edits and switches branches', async () => {
    await answered(() => page.click('.message.assistant [aria-label=Regenerate]'));
    await expect.poll(() => page.text('.message.assistant .branches')).toBe('2 / 2');
    await page.click('.message.assistant [aria-label="Previous version"]');
    await expect.poll(() => page.text('.message.assistant .branches')).toBe('1 / 2');
    await page.click('.message.user [aria-label=Edit]');
    await page.fill('.message.user textarea', 'Tell me of wolves.');
    await answered(() => page.click('.message.user .primary'));
    expect(lastBody().messages).toEqual([{ role: 'user', content: 'Tell me of wolves.' }]);
    expect(await page.text('.message.user .branches')).toBe('2 / 2');
    await page.click('.message.user [aria-label="Previous version"]');
    await expect.poll(() => page.text('.message.user .content')).toBe('Tell me of foxes.');
  });

  it('sends its settings', async () => {
    await page.click('#settings-button');
    await page.fill('#system', 'Be brief.');
    await page.fill('#temperature', '0.25');
    await page.fill('#seed', '12345678901234567890');
    await say('And hens?');
    expect(lastBody()).toMatchObject({
      temperature: 0.25,
      messages: [{ role: 'system', content: 'Be brief.' }, {}, {}, {}],
    });
    expect(proxy.bodies.at(-1)).toContain('"seed":12345678901234567890');
    await page.fill('#seed', '');
  });

  it('shows the server’s own message about a schema at its editor', async () => {
    await page.fill('#constraint-kind', 'schema');
    await page.fill('#constraint', '{"type": "fox"}');
    await say('Now JSON.');
    await expect.poll(() => page.text('.settings .error')).toMatch(/^response_format at \/type: /);
    expect(await page.text('.message.assistant .error')).toBe(await page.text('.settings .error'));
    await page.fill('#constraint', '{');
    await page.click('.message.assistant [aria-label=Regenerate]');
    await expect.poll(() => page.text('.settings .error')).toMatch(/^the schema: .*JSON/);
    await page.fill('#constraint-kind', '');
  });

  it('shows log probabilities of tokens', async () => {
    await page.evaluate("document.querySelector('#logprobs').click()");
    await answered(() => page.click('.message.assistant [aria-label=Regenerate]'));
    await page.click('.message.assistant .tokens-button');
    await page.evaluate("document.querySelector('button.token').focus()");
    await expect.poll(() => page.text('.alternatives caption')).toMatch(/%/);
    expect(await page.count('.alternatives tr')).toBeGreaterThan(0);
    await page.evaluate("document.querySelector('#logprobs').click()");
  });

  it('stops an answer, which can then be continued', async () => {
    await page.click('#new-chat');
    await page.until("document.querySelector('.empty') !== null");
    proxy.answer = (_body, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('data: {"choices":[{"index":0,"delta":{"content":"Once upon"}}]}\n\n');
    };
    await send('A story.');
    await expect.poll(() => page.text('.message.assistant .content')).toBe('Once upon');
    await page.click('#stop-answer');
    await expect.poll(() => page.text('.message.assistant .note')).toBe('Stopped.');
    proxy.answer = scriptedDeltas([{ content: ' a time' }]);
    await page.click('.message.assistant [aria-label=Continue]');
    await expect.poll(() => page.text('.message.assistant .content')).toBe('Once upon a time');
    expect(lastBody().messages.at(-1)).toEqual({ role: 'assistant', content: 'Once upon' });
    proxy.answer = undefined;
  });

  it('folds reasoning, and sends results of tool calls', async () => {
    await page.click('#new-chat');
    await page.until("document.querySelector('.empty') !== null");
    const call = { index: 0, id: 'x', type: 'function', function: { name: 'weather', arguments: '{"city":"Rome"}' } };
    proxy.answer = scriptedDeltas([{ reasoning_content: 'They want weather.' }, { tool_calls: [call] }], 'tool_calls');
    await say('How is the weather?');
    await expect.poll(() => page.text('.tool-call h3 bdi')).toBe('weather');
    expect(await page.text('.tool-call code')).toContain('"city": "Rome"');
    expect(await page.evaluate("document.querySelector('.reasoning').open")).toBe(false);
    expect(await page.text('.reasoning .markdown')).toBe('They want weather.');
    await page.fill('.tool-call textarea', '21 degrees');
    proxy.answer = scriptedDeltas([{ content: 'It is 21 degrees.' }]);
    await page.click('.tool-calls button[type=submit]');
    await expect.poll(() => page.text('.message.assistant .content')).toBe('It is 21 degrees.');
    expect(lastBody().messages.slice(-2)).toMatchObject([
      { tool_calls: [{ id: 'x' }], reasoning_content: 'They want weather.' },
      { role: 'tool', tool_call_id: 'x', content: '21 degrees' },
    ]);
    proxy.answer = undefined;
  });

  it('shows an error of the server in place of an answer', async () => {
    await page.click('#new-chat');
    await page.until("document.querySelector('.empty') !== null");
    await say('x'.repeat(200_000));
    await expect.poll(() => page.text('.message .error')).toMatch(/context size/);
  });

  it('exports, deletes and imports conversations', async () => {
    const count = () => page.count('.conversations li');
    const before = await count();
    expect(before).toBeGreaterThan(3);
    await page.evaluate(`{
      const create = URL.createObjectURL;
      URL.createObjectURL = (blob) => { window.exported = blob.text(); return create(blob); };
    }`);
    await page.click('#export');
    await page.until('window.exported !== undefined');
    for (let i = before; i > 0; i -= 1) {
      await page.click('.conversations li button.icon');
      await page.click('.conversations li button.danger');
      await expect.poll(count).toBe(i - 1);
    }
    await page.evaluate(`window.exported.then((text) => {
      const transfer = new DataTransfer();
      transfer.items.add(new File([text], 'conversations.json'));
      const field = document.querySelector('#import');
      field.files = transfer.files;
      field.dispatchEvent(new Event('change'));
    })`);
    await expect.poll(count).toBe(before);
    await page.evaluate(
      "document.querySelectorAll('.conversations .title').forEach((one) => one.textContent === 'Tell me of foxes.' && one.click())",
    );
    await expect.poll(() => page.text('.message.assistant strong')).toBe('brave');
  });

  it('never breaks its policy', () => {
    const unexpected = page.errors.filter((text) => !/status of 400/.test(text));
    expect(unexpected).toEqual([]);
    const origin = new URL(proxy.url).origin;
    expect(page.requests.filter((url) => !url.startsWith(origin) && !url.startsWith('blob:'))).toEqual([]);
  });
});

describe.skipIf(browser === undefined)('the page of several models', () => {
  let server: TestGateway;
  let page: Page;
  beforeAll(async () => {
    server = await startTestGateway('models/demo.gguf', {
      moreModels: [{ model: 'models/demo.gguf', modelName: 'other' }],
      httpListen: '127.0.0.1:0',
      httpMetrics: true,
    });
    page = await Page.open(`${baseOf(server.gateway)}/`);
  });
  afterAll(async () => {
    await page?.close();
    await server.stop();
  });

  it('requests the one that is chosen', async () => {
    const names = "[...document.querySelector('select#model')?.options ?? []].map(({ value }) => value).join()";
    await expect.poll(() => page.evaluate(names)).toBe('demo,other');
    await page.fill('#model', 'other');
    await page.fill('#prompt', 'Hello');
    await page.click('#send');
    const steps = () => server.gateway.models.map(({ router }) => router.counts.steps > 0);
    await expect.poll(steps).toEqual([false, true]);
  });

  it('has a view of the server', async () => {
    await page.click('#server-view');
    await expect.poll(() => page.count('.server .plot')).toBe(4);
    expect(await page.text('.server')).toMatch(/demo.*loaded.*other.*loaded/);
    expect(await page.text('.server')).toContain('No executor was lost.');
  });
});
