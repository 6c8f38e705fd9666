import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Browser, browser } from '../../../support/browser.js';
import { type FakeGateway, startFakeGateway } from '../../../support/fake-gateway.js';
import { baseOf } from '../../../support/http.js';
import { buildPage } from '../../../support/page-files.js';
import { type PageProxy, scriptedDeltas, startPageProxy } from '../../../support/page-proxy.js';

buildPage();

describe.skipIf(browser === undefined)('the page in a browser that keeps nothing for it', () => {
  let server: FakeGateway;
  let proxy: PageProxy;
  let chromium: Browser;
  beforeAll(async () => {
    server = await startFakeGateway({ httpListen: '127.0.0.1:0' });
    proxy = await startPageProxy(baseOf(server.gateway));
    chromium = Browser.open({ preferences: { profile: { default_content_setting_values: { cookies: 2 } } } });
  });
  afterAll(async () => {
    await chromium?.close();
    await proxy?.stop();
    await server.stop();
  });

  it('says so, and chats', async () => {
    const page = await chromium.tab(proxy.url);
    const denied = 'try { sessionStorage.length; false } catch { true }';
    expect(await page.evaluate(denied)).toBe(true);
    proxy.answer = scriptedDeltas([{ content: 'Without storage.' }]);
    await page.fill('#prompt', 'Hello.');
    await page.click('#send');
    await expect.poll(() => page.text('.message.assistant .content')).toBe('Without storage.');
    await expect.poll(() => page.text('.problem')).toMatch(/^Conversations are not kept: ./);
    await page.click('#new-chat');
    await page.until("document.querySelector('.empty') !== null");
    expect(page.errors).toEqual([]);
    await page.close();
  });
});

describe.skipIf(browser === undefined)('two pages below two paths of one origin', () => {
  it('keep their conversations apart', async () => {
    const server = await startFakeGateway({ httpListen: '127.0.0.1:0' });
    const proxy = await startPageProxy(baseOf(server.gateway), '/', ['/one/', '/two/']);
    const chromium = Browser.open();
    try {
      const page = await chromium.tab(`${proxy.url}one/`);
      proxy.answer = scriptedDeltas([{ content: 'Of the first.' }]);
      await page.fill('#prompt', 'First.');
      await page.click('#send');
      await expect.poll(() => page.text('.message.assistant .content')).toBe('Of the first.');
      await page.goto(`${proxy.url}two/`);
      await page.until("location.pathname === '/two/' && document.querySelector('.empty #app, .empty p') !== null");
      expect(await page.count('.conversations li')).toBe(0);
      await page.goto(`${proxy.url}one/`);
      await expect.poll(() => page.text('.message.assistant .content')).toBe('Of the first.');
    } finally {
      await chromium.close();
      await proxy.stop();
      await server.stop();
    }
  });
});
