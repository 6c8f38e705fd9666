import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Browser, browser, type Page } from '../../../support/browser.js';
import { type FakeGateway, startFakeGateway } from '../../../support/fake-gateway.js';
import { baseOf } from '../../../support/http.js';
import { KEPT } from '../../../support/kept-conversations.js';
import { buildPage } from '../../../support/page-files.js';
import { type PageProxy, scriptedDeltas, startPageProxy } from '../../../support/page-proxy.js';
import { isFull } from '../../../support/run-size.js';

buildPage();

describe.skipIf(browser === undefined)('the page in odd conditions', () => {
  let server: FakeGateway;
  let proxy: PageProxy;
  let chromium: Browser;
  beforeAll(async () => {
    server = await startFakeGateway({
      httpListen: '127.0.0.1:0',
      modelName: `<b>bold</b>\u202E${'long-name-'.repeat(12)}`,
    });
    proxy = await startPageProxy(baseOf(server.gateway));
    // A name that is not this machine's, without TLS: the page is not in a secure context.
    chromium = Browser.open({ args: ['--host-resolver-rules=MAP page.example 127.0.0.1'] });
  });
  afterAll(async () => {
    await chromium?.close();
    await proxy?.stop();
    await server.stop();
  });
  const content = '.message.assistant .content';
  const ask = async (page: Page, answer: string, prompt = 'Hello.') => {
    proxy.answer = scriptedDeltas([{ content: answer }]);
    const before = await page.count('.message');
    await page.fill('#prompt', prompt);
    await page.click('#send');
    await page.until(`document.querySelectorAll('.message').length === ${before + 2}`);
    await page.until("document.querySelector('#send') !== null && document.querySelector('[aria-busy=true]') === null");
  };

  it('copies without TLS, where the browser has no clipboard of its own, and keeps the focus', async () => {
    const page = await chromium.tab(proxy.url.replace('127.0.0.1', 'page.example'));
    expect(await page.evaluate('[isSecureContext, navigator.clipboard === undefined]')).toEqual([false, true]);
    await ask(page, 'To be copied.');
    await page.evaluate(
      "document.addEventListener('copy', () => { window.copied = String(document.activeElement.value); })",
    );
    await page.evaluate('document.querySelector(\'.message.assistant [aria-label="Copy message"]\').focus()');
    const { result } = (await page.send('Runtime.evaluate', {
      expression: 'document.querySelector(\'.message.assistant [aria-label="Copy message"]\').click()',
      userGesture: true,
    })) as { result: unknown };
    expect(result).toBeDefined();
    await page.until("document.querySelector('[aria-label=Copied]') !== null");
    expect(await page.evaluate('window.copied')).toBe('To be copied.');
    expect(await page.evaluate('document.activeElement.ariaLabel')).toBe('Copied');
    await page.close();
  });

  it('does not send while an input method composes', async () => {
    const page = await chromium.tab(proxy.url);
    await page.until("document.querySelector('#prompt') !== null");
    await page.evaluate("document.querySelector('#prompt').focus()");
    await page.send('Input.imeSetComposition', { text: 'にほん', selectionStart: 3, selectionEnd: 3 });
    await page.until("document.querySelector('#prompt').value === 'にほん'");
    const enter = (options: string) =>
      page.evaluate(`document.querySelector('#prompt').dispatchEvent(
        new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true, ${options} }))`);
    await enter('isComposing: true');
    await enter('keyCode: 229');
    expect(await page.count('.message')).toBe(0);
    expect(await page.evaluate("document.querySelector('#prompt').value")).toBe('にほん');
    await page.send('Input.insertText', { text: '日本' });
    proxy.answer = scriptedDeltas([{ content: 'Fine.' }]);
    await page.press('Enter');
    await expect.poll(() => page.text('.message.user .content')).toBe('日本');
    await expect.poll(() => page.text(content)).toBe('Fine.');
    await page.close();
  });

  it.runIf(isFull)('takes 1 MB that is pasted, in one line and in many, and shows it again', async () => {
    const page = await chromium.tab(proxy.url);
    for (const piece of ['x', 'a line of text\\n']) {
      await page.click('#new-chat');
      await page.until("document.querySelector('.empty') !== null");
      await page.evaluate(`{
        const field = document.querySelector('#prompt');
        field.focus();
        Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, 'value').set.call(
          field, '${piece}'.repeat(${Math.ceil((1 << 20) / piece.replace('\\n', 'n').length)}));
        field.dispatchEvent(new Event('input', { bubbles: true }));
      }`);
      proxy.answer = scriptedDeltas([{ content: 'Long.' }]);
      await page.click('#send');
      await expect.poll(() => page.text(content)).toBe('Long.');
      expect(
        await page.evaluate("document.querySelector('.message.user .content').textContent.length"),
      ).toBeGreaterThanOrEqual(1 << 20);
    }
    await page.close();
  });

  it.runIf(isFull)('shows an answer of 5,000 code blocks, adjacent ones too, and opens it again', async () => {
    const page = await chromium.tab(proxy.url);
    const block = (i: number) => `\`\`\`js\nlet a${i} = 1;\n\`\`\`\n`;
    const answer = Array.from({ length: 5000 }, (_, i) => block(i) + (i < 2500 ? '' : '\n')).join('');
    await ask(page, answer);
    await page.until("document.querySelectorAll('.code').length === 5000", 120_000);
    await page.until("[...document.querySelectorAll('.code')].at(-1).querySelector('.hljs-keyword') !== null");
    // Those far from what is visible are not highlighted.
    expect(await page.count('.hljs-keyword')).toBeLessThan(500);
    await page.reload();
    await page.until("document.querySelectorAll('.code').length === 5000", 120_000);
    expect(await page.text(content)).toContain('let a0 = 1;');
    expect(page.errors).toEqual([]);
    await page.close();
  });

  it('shows a model’s name with markup and directions as text, which pushes nothing off a phone’s screen', async () => {
    const page = await chromium.tab(proxy.url);
    await page.send('Emulation.setDeviceMetricsOverride', {
      width: 360,
      height: 640,
      deviceScaleFactor: 2,
      mobile: true,
    });
    await expect.poll(() => page.text('#model')).toBe(server.gateway.modelName);
    expect(await page.count('#model b')).toBe(0);
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(360);
    const right = "document.querySelector('#settings-button').getBoundingClientRect().right";
    expect(await page.evaluate(right)).toBeLessThanOrEqual(360);
    await page.close();
  });

  it.each([
    ['200 %', 640, 400],
    ['400 %', 320, 256],
  ])('is used when it is enlarged to %s', async (_, width, height) => {
    const page = await chromium.tab(proxy.url);
    await page.send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 2, mobile: false });
    await ask(page, 'Enlarged.');
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(width);
    const seen = `(() => {
      const { top, bottom, right } = document.querySelector('#prompt').getBoundingClientRect();
      const scroller = document.querySelector('.scroller').getBoundingClientRect();
      const settings = document.querySelector('#settings-button').getBoundingClientRect();
      return { field: bottom <= innerHeight && top < bottom && right <= innerWidth, room: scroller.height, settings: settings.right <= innerWidth };
    })()`;
    expect(await page.evaluate(seen)).toMatchObject({ field: true, settings: true });
    expect((await page.evaluate<{ room: number }>(seen)).room).toBeGreaterThan(90);
    await page.close();
  });

  it('is used without a mouse: the list, a chat, the settings and a message’s buttons are reached with Tab', async () => {
    const page = await chromium.tab(proxy.url);
    await page.click('#new-chat');
    await ask(page, 'By keyboard.');
    const reached = new Set<string>();
    await page.evaluate('document.activeElement.blur()');
    for (let i = 0; i < 60; i += 1) {
      await page.press('Tab');
      const name = await page.evaluate<string>(
        '(({ id, ariaLabel, textContent }) => id || ariaLabel || textContent.trim())(document.activeElement)',
      );
      reached.add(name);
      const outline = await page.evaluate<string>('getComputedStyle(document.activeElement).outlineStyle');
      if (
        name !== '' &&
        !['prompt', 'import'].includes(name) &&
        (await page.evaluate('document.activeElement !== document.body'))
      )
        expect([name, outline]).not.toEqual([name, 'none']);
    }
    for (const name of [
      'new-chat',
      'export',
      'import',
      'settings-button',
      'Messages',
      'Copy message',
      'Edit',
      'Regenerate',
      'prompt',
    ])
      expect([...reached]).toContain(name);
    await page.close();
  });

  it('does not move where the reader wants no motion, and is dark where the reader wants it dark', async () => {
    const page = await chromium.tab(proxy.url);
    const features = [
      { name: 'prefers-reduced-motion', value: 'reduce' },
      { name: 'prefers-color-scheme', value: 'dark' },
    ];
    await page.send('Emulation.setEmulatedMedia', { features });
    await page.click('#new-chat');
    proxy.answer = (_body, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(
        'data: {"choices":[{"index":0,"delta":{"content":"Once"}}]}\n\ndata: {"choices":[],"recovery":{"state":"lost"}}\n\n',
      );
    };
    await page.fill('#prompt', 'Still.');
    await page.click('#send');
    await page.until("document.querySelector('.recovery.is-open') !== null");
    expect(await page.evaluate('document.getAnimations().length')).toBe(0);
    expect(await page.evaluate('getComputedStyle(document.body).backgroundColor')).toBe('rgb(24, 24, 27)');
    await page.send('Emulation.setEmulatedMedia', {
      features: [{ name: 'prefers-reduced-motion', value: 'no-preference' }],
    });
    await page.until('document.getAnimations().length === 1');
    await page.click('#stop-answer');
    await page.close();
  });

  it('works when the reader comes back to it', async () => {
    const page = await chromium.tab(proxy.url);
    await page.click('#new-chat');
    await ask(page, 'Before.');
    await page.goto(`${proxy.url}v1/models`);
    await page.until("document.querySelector('#app') === null");
    await page.evaluate('history.back()');
    await page.until(`document.querySelector('${content}')?.textContent === 'Before.'`);
    await ask(page, 'After.');
    expect(await page.text(content)).toBe('After.');
    await page.close();
  });

  it('shows answers while the browser is slow to keep them, and keeps them then', async () => {
    const page = await chromium.tab(proxy.url);
    await page.click('#new-chat');
    // Once the page has its database.
    await page.evaluate(KEPT);
    // As another tab does that is writing: the next write waits for its transaction.
    await page.evaluate(`(async () => {
      const { name } = (await indexedDB.databases()).find(({ name }) => name.startsWith('rocmforge:'));
      const database = await new Promise((resolve) => {
        const opening = indexedDB.open(name);
        opening.onsuccess = () => resolve(opening.result);
      });
      const hold = (name, extraMs) => {
        const store = database.transaction(name, 'readwrite').objectStore(name);
        const again = () => {
          if (!(performance.now() > window.releasedAt + extraMs)) store.count().onsuccess = again;
        };
        again();
      };
      hold('conversations', 0);
      // Messages wait longer: writes of one store do not wait for those of another.
      hold('messages', 300);
      return true;
    })()`);
    await ask(page, 'Kept later.');
    expect(await page.text(content)).toBe('Kept later.');
    await page.evaluate('window.releasedAt = performance.now()');
    // It follows the writes that wait.
    expect(await page.evaluate(KEPT)).toBeGreaterThan(0);
    await page.goto(`${proxy.url}`);
    await page.until(`document.querySelector('${content}')?.textContent === 'Kept later.'`);
    await page.close();
  });

  it('says that nothing is kept when the disk is full, and continues', async () => {
    const page = await chromium.tab(proxy.url);
    await page.click('#new-chat');
    // As a browser does whose disk is full.
    await page.evaluate(`IDBObjectStore.prototype.put = () => {
      throw new DOMException('The disk is full.', 'QuotaExceededError');
    }; true`);
    await ask(page, 'Not kept.', `${'x'.repeat(1 << 18)}`);
    await expect.poll(() => page.text('.problem')).toMatch(/^Conversations are not kept: ./);
    expect(await page.text(content)).toBe('Not kept.');
    await page.close();
  });

  it.each([
    ['a cut file', '{"format": "rocmforge-conversations", "version": 1, "conv', /not JSON, or it is cut/],
    ['another file', '{"a": 1}', /no conversations of this page/],
    ['a file without messages', '{"format":"rocmforge-conversations","version":1,"conversations":[{}]}', /must be/],
    ['bytes', '\u0000\u0001PK\u0003', /not JSON/],
  ])('refuses %s with a reason', async (_, text, reason) => {
    const page = await chromium.tab(proxy.url);
    const before = await page.evaluate(KEPT);
    await importFile(page, text);
    await expect.poll(() => page.text('.conversations [role=status]')).toMatch(reason);
    expect(await page.evaluate(KEPT)).toBe(before);
    await page.close();
  });

  it('shows a damaged conversation as far as it goes', async () => {
    const page = await chromium.tab(proxy.url);
    const message = {
      id: 'a',
      role: 'assistant',
      content: 'Half is left.',
      stats: { tokens: 3 },
      marks: [{ at: -5 }, { at: 1e9, ms: 'x' }],
    };
    const conversations = [
      { conversation: { title: 'Damaged', leaf: 'gone' }, messages: [message, { ...message, stats: {} }] },
    ];
    await importFile(page, JSON.stringify({ format: 'rocmforge-conversations', version: 1, conversations }));
    await page.until(
      "[...document.querySelectorAll('.conversations .title')].some((one) => one.textContent === 'Damaged')",
    );
    await page.evaluate(
      "[...document.querySelectorAll('.conversations .title')].find((one) => one.textContent === 'Damaged').click()",
    );
    await expect.poll(() => page.text(content)).toMatch(/Half is left\./);
    expect(page.errors).toEqual([]);
    await page.close();
  });

  const importFile = (page: Page, text: string) =>
    page.until(`(() => {
      const field = document.querySelector('#import');
      if (field === null) return false;
      const transfer = new DataTransfer();
      transfer.items.add(new File([${JSON.stringify(text)}], 'conversations.json'));
      field.files = transfer.files;
      field.dispatchEvent(new Event('change'));
      return true;
    })()`);
});
