import { mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { newToken } from '../../../../src/gateway/trust/tokens.js';
import { Browser, browser, Page } from '../../../support/browser.js';
import { type FakeGateway, startFakeGateway } from '../../../support/fake-gateway.js';
import { baseOf } from '../../../support/http.js';
import { buildPage } from '../../../support/page-files.js';
import { type PageProxy, scripted, scriptedDeltas, startPageProxy } from '../../../support/page-proxy.js';

buildPage();

const words = (count: number) => Array.from({ length: count }, (_, i) => `word${i} `);

describe.skipIf(browser === undefined)('the page', () => {
  let server: FakeGateway;
  let proxy: PageProxy;
  let chromium: Browser;
  beforeAll(async () => {
    server = await startFakeGateway({ httpListen: '127.0.0.1:0' });
    proxy = await startPageProxy(baseOf(server.gateway));
    chromium = Browser.open();
  });
  afterAll(async () => {
    await chromium?.close();
    await proxy?.stop();
    await server.stop();
  });
  const say = async (page: Page, text: string) => {
    await page.fill('#prompt', text);
    await page.click('#send');
  };
  const content = '.message.assistant .content';

  it('keeps what had come of an answer when it is reloaded, and can continue it', async () => {
    const page = await chromium.tab(proxy.url);
    proxy.answer = scripted(words(2000), 5);
    await say(page, 'Reload me.');
    await page.until(`(document.querySelector('${content}')?.textContent ?? '').includes('word200 ')`);
    await page.reload();
    await page.until(`document.querySelector('.message.assistant .note')?.textContent === 'Stopped.'`);
    expect(await page.text(content)).toMatch(/^word0 word1 /);
    proxy.answer = scriptedDeltas([{ content: 'and so on.' }]);
    await page.click('.message.assistant [aria-label=Continue]');
    await expect.poll(() => page.text(content)).toMatch(/and so on\.$/);
    await page.close();
  });

  it('shows an answer of one tab in the other', async () => {
    const first = await chromium.tab(proxy.url);
    const second = await chromium.tab(proxy.url);
    proxy.answer = scripted(words(600), 5);
    await say(first, 'Two tabs.');
    await second.until("document.querySelector('.conversations .title')?.textContent === 'Two tabs.'");
    await second.evaluate("document.querySelector('.conversations .title').click()");
    await second.until(`document.querySelector('${content}')?.textContent.includes('word100 ')`);
    expect(await second.count('#stop-answer')).toBe(1);
    await second.until(`document.querySelector('${content}')?.textContent.includes('word599')`);
    await second.until("document.querySelector('#send') !== null");
    expect(await second.text(content)).toBe(await first.text(content));
    await first.close();
    await second.close();
  });

  it('loses no message where two tabs send in one conversation at once', async () => {
    const first = await chromium.tab(proxy.url);
    const second = await chromium.tab(proxy.url);
    proxy.answer = scriptedDeltas([{ content: 'Begun.' }]);
    await say(first, 'Shared.');
    await second.until("document.querySelector('.conversations .title')?.textContent === 'Shared.'");
    await second.evaluate("document.querySelector('.conversations .title').click()");
    for (const page of [first, second])
      await page.until(`document.querySelector('${content}')?.textContent === 'Begun.'`);
    proxy.answer = scripted(words(200), 5);
    await Promise.all([say(first, 'From the first.'), say(second, 'From the second.')]);
    const texts = "[...document.querySelectorAll('.message')].map((message) => message.textContent).join(' ')";
    for (const page of [first, second]) {
      await page.until(`${texts}.includes('word199') && document.querySelector('#send') !== null`);
    }
    // Two messages to one answer are branches of it: both are there, whichever tab shows them.
    await first.reload();
    await first.until(`${texts}.includes('word199')`);
    const isFirst = await first.evaluate<boolean>(`${texts}.includes('From the first.')`);
    const [shown, other] = isFirst ? ['first', 'second'] : ['second', 'first'];
    expect(await first.evaluate<string>(texts)).toContain(`From the ${shown}.`);
    await first.evaluate(
      `document.querySelector('[aria-label="${
        (await first.evaluate<boolean>('document.querySelector(\'[aria-label="Next version"]\').disabled'))
          ? 'Previous'
          : 'Next'
      } version"]').click()`,
    );
    await first.until(`${texts}.includes('From the ${other}.')`);
    await first.close();
    await second.close();
  });

  it('shows an answer as it comes in a copy of its tab', async () => {
    const first = await chromium.tab(proxy.url);
    proxy.answer = scripted(words(1200), 5);
    await say(first, 'Copy me.');
    await first.until(`document.querySelector('${content}')?.textContent.includes('word10 ')`);
    const copied = await first.evaluate<string>('JSON.stringify({ ...sessionStorage })');
    const second = await chromium.tab(proxy.url);
    await second.evaluate(`Object.assign(sessionStorage, ${copied})`);
    await second.reload();
    await second.until("document.querySelector('#stop-answer') !== null");
    await second.until(`document.querySelector('${content}')?.textContent.includes('word1199')`);
    await second.until("document.querySelector('#send') !== null");
    expect(await second.text(content)).toBe(await first.text(content));
    expect([await first.count('.note'), await second.count('.note')]).toEqual([0, 0]);
    await first.close();
    await second.close();
  });

  it('says that the network was lost, keeps the text, and continues when it is back', async () => {
    const page = await chromium.tab(proxy.url);
    proxy.answer = scripted(words(2000), 5);
    await say(page, 'Lose the network.');
    await page.until(`document.querySelector('${content}')?.textContent.includes('word50 ')`);
    proxy.isOffline = true;
    await expect.poll(() => page.text('.message.assistant .error')).toMatch(/cannot be reached|was lost/);
    expect(await page.text(content)).toContain('word50');
    proxy.isOffline = false;
    proxy.answer = scriptedDeltas([{ content: 'back again' }]);
    await page.click('.message.assistant [aria-label=Continue]');
    await expect.poll(() => page.text(content)).toMatch(/back again$/);
    await page.close();
  });

  it('shows hostile text as text, loads nothing and runs nothing', async () => {
    const page = await chromium.tab(proxy.url);
    const hostile = [
      '<script>window.hacked = 1</script>\n\n',
      '<img src="https://evil.example/a.png" onerror="window.hacked = 2">\n\n',
      '![pixel](https://evil.example/b.png) [click](javascript:window.hacked=3) [data](data:text/html,x)\n\n',
      '[good](https://good.example/) <a href="javascript:alert(1)">x</a> <iframe src="https://evil.example"></iframe>\n\n',
      'file\u202Egnp.exe\u2066\n\n',
      '```html\n<script>window.hacked = 4</script>\n```\n\n',
      `| a |\n| - |\n| <svg onload="window.hacked=5"> |\n\n`,
      `${'>'.repeat(3000)} deep\n\n`,
    ];
    const text = hostile.join('');
    proxy.answer = scriptedDeltas([{ content: text }, { reasoning_content: '<b>no</b>' }]);
    await say(page, '<img src=x onerror=window.hacked=6>\u202E');
    await page.until("document.querySelector('.stats')?.textContent.includes('123.4')");
    expect(await page.evaluate('window.hacked')).toBeUndefined();
    const shown = await page.text(content);
    for (const part of ['<script>window.hacked = 1</script>', 'onerror="window.hacked = 2"', '<svg onload', 'U+202E']) {
      expect(shown).toContain(part);
    }
    expect(await page.count('.message script, .message img, .message iframe')).toBe(0);
    const links = await page.evaluate<string[]>("[...document.querySelectorAll('.message a')].map(({ href }) => href)");
    expect([...new Set(links)].every((link) => /^https:/.test(link))).toBe(true);
    expect(links).toContain('https://good.example/');
    const origin = new URL(proxy.url).origin;
    expect(page.requests.filter((url) => !url.startsWith(origin))).toEqual([]);
    expect(page.errors).toEqual([]);
    await page.close();
  });

  it('takes a pasted line of 1 MB without breaking it', async () => {
    const page = await chromium.tab(proxy.url);
    await page.until("document.querySelector('#prompt') !== null");
    await page.click('#prompt');
    const stop = await page.traceTasks(50);
    await page.send('Input.insertText', { text: 'x'.repeat(1 << 20) });
    await page.until(`document.querySelector('#prompt').value.length === ${1 << 20}`);
    await page.evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))');
    // With line breaks 17 s; 0.5 s without.
    const spent = (await stop()).map(([, cpuMs]) => cpuMs);
    expect(Math.max(...spent)).toBeLessThan(4000);
    proxy.answer = scriptedDeltas([{ content: 'Long.' }]);
    await page.click('#send');
    await expect.poll(() => page.text(content)).toBe('Long.');
    expect(await page.count('#prompt.unwrapped')).toBe(0);
    await page.click('.message.user [aria-label=Edit]');
    await page.until("document.querySelector('.editor textarea.unwrapped') !== null");
    await page.close();
  });

  it('shows a line of 1 MB and stays usable', async () => {
    const page = await chromium.tab(proxy.url);
    const piece = 'x'.repeat(1 << 14);
    proxy.answer = scripted(
      Array.from({ length: 64 }, () => piece),
      5,
    );
    await say(page, 'A long line.');
    await page.until("document.querySelector('.stats')?.textContent.includes('123.4')");
    expect(await page.evaluate(`document.querySelector('${content}').textContent.length`)).toBe(1 << 20);
    await page.fill('#prompt', 'still here');
    expect(await page.evaluate("document.querySelector('#prompt').value")).toBe('still here');
    await page.close();
  });
});

describe.skipIf(browser === undefined)('the page of a server that requires tokens', () => {
  let server: FakeGateway;
  let page: Page;
  const file = path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'tokens');
  const [good, next] = [newToken('good'), newToken('next')];
  beforeAll(async () => {
    writeFileSync(file, `${good.line}\n${next.line}\n`);
    const model = { chatTemplate: '{{ messages[-1].content }}' };
    const script = Array.from({ length: 8 }, (_, i) => 262 + i);
    server = await startFakeGateway({ httpListen: '127.0.0.1:0', tokenFile: file, httpMetrics: true, model, script });
  });
  afterAll(async () => {
    await page?.close();
    await server.stop();
  });

  it('asks for a token, shows the view of the server with it, and asks again when it is refused', async () => {
    page = await Page.open(`${baseOf(server.gateway)}/`);
    await expect.poll(() => page.text('#token-form p')).not.toBe('');
    expect(await page.count('#server-view')).toBe(0);
    await page.goto('about:blank');
    await page.goto(`${baseOf(server.gateway)}/#token=${good.token}`);
    await page.until("document.querySelector('#server-view') !== null");
    expect(await page.count('#token-form')).toBe(0);
    await page.goto('about:blank');
    await page.goto(`${baseOf(server.gateway)}/#token=wrong`);
    await page.until("document.querySelector('#token-form') !== null");
    await page.fill('#token-form input', next.token);
    await page.click('#token-form button');
    await page.until("document.querySelector('#token-form') === null");
    await page.until("document.querySelector('#server-view') !== null");
    expect(await page.evaluate('location.hash')).toBe(`#token=${next.token}`);
    expect(page.requests.some((url) => url.includes(next.token))).toBe(false);
  });

  it('keeps the conversation and what is being written when its token is withdrawn, and goes on with another', async () => {
    writeFileSync(file, `${good.line}\n`);
    const answered = `[...document.querySelectorAll('.message.assistant .content')].filter((one) => one.textContent !== '')`;
    await page.goto('about:blank');
    await page.goto(`${baseOf(server.gateway)}/#token=${good.token}`);
    await page.until("document.querySelector('#server-view') !== null");
    await page.fill('#prompt', 'Before.');
    await page.click('#send');
    await page.until(`${answered}.length === 1 && document.querySelector('#send') !== null`);
    await page.fill('#prompt', 'A draft.');
    writeFileSync(file, `${next.line}\n`);
    await page.until("document.querySelector('#token-form') !== null");
    expect(await page.count('#server-view')).toBe(0);
    expect(await page.evaluate("document.querySelector('#prompt').value")).toBe('A draft.');
    await page.click('#send');
    await page.until("document.querySelector('.message.assistant .error') !== null");
    expect(await page.evaluate(`${answered}.length`)).toBe(1);
    await page.fill('#token-form input', next.token);
    await page.click('#token-form button');
    await page.until("document.querySelector('#token-form') === null");
    await page.click('.message.assistant:last-child [aria-label=Regenerate]');
    await page.until(`${answered}.length === 2`);
    const users = "[...document.querySelectorAll('.message.user .content')].map((one) => one.textContent.trim())";
    expect(await page.evaluate(users)).toEqual(['Before.', 'A draft.']);
  });
});
