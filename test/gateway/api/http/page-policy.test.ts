import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Browser, browser } from '../../../support/browser.js';
import { hasOpenssl, makeAuthority } from '../../../support/certificates.js';
import { type FakeGateway, spelled, startFakeGateway } from '../../../support/fake-gateway.js';
import { baseOf } from '../../../support/http.js';
import { buildPage } from '../../../support/page-files.js';
import { type PageProxy, scriptedDeltas, startPageProxy } from '../../../support/page-proxy.js';

buildPage();

const TEMPLATE =
  '{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}';

describe.skipIf(browser === undefined)('the content security policy of the page, report-only', () => {
  let server: FakeGateway;
  let proxy: PageProxy;
  let chromium: Browser;
  beforeAll(async () => {
    server = await startFakeGateway({ httpListen: '127.0.0.1:0', httpMetrics: true });
    proxy = await startPageProxy(baseOf(server.gateway), '/below/');
    proxy.reportsOnly = true;
    chromium = Browser.open();
  });
  afterAll(async () => {
    await chromium?.close();
    await proxy?.stop();
    await server.stop();
  });

  it('finds nothing in any part of the page', async () => {
    const page = await chromium.tab(proxy.url);
    const call = { index: 0, id: 'x', type: 'function', function: { name: 'f', arguments: '{"a":1}' } };
    const text = '# A\n\n```js\nlet a = 1;\n```\n\n![x](https://evil.example/x.png) <img src=x onerror=y>\n';
    proxy.answer = scriptedDeltas(
      [{ reasoning_content: 'hm' }, { content: text }, { tool_calls: [call] }],
      'tool_calls',
    );
    await page.fill('#prompt', 'Everything.');
    await page.click('#send');
    await page.until("document.querySelector('.hljs-keyword') !== null");
    await page.until("document.querySelector('.stats')?.textContent.includes('123.4')");
    await page.click('#settings-button');
    await page.fill('#constraint-kind', 'schema');
    await page.click('.message.assistant [aria-label="Copy message"]');
    await page.click('.message.user [aria-label=Edit]');
    await page.click('#export');
    await page.click('#server-view');
    await page.until("document.querySelectorAll('.plot').length === 4");
    await page.reload();
    await page.until("document.querySelector('.message.assistant h3.heading') !== null");
    expect(page.violations).toEqual([]);
    expect(proxy.violations).toEqual([]);
    // The same observer sees what the policy would refuse.
    await page.evaluate(`{
      const image = new Image();
      image.src = 'https://evil.example/pixel.png';
      const script = document.createElement('script');
      try { script.text = 'window.inline = 1'; document.body.append(script); } catch {}
    }`);
    await expect.poll(() => page.violations.length).toBeGreaterThanOrEqual(2);
    expect(page.violations.join('\n')).toContain('report img-src https://evil.example/pixel.png');
    await expect.poll(() => proxy.violations.join('\n')).toContain('evil.example');
    await page.close();
  });
});

describe.skipIf(browser === undefined || !hasOpenssl)('the page over TLS', () => {
  let server: FakeGateway;
  let chromium: Browser;
  beforeAll(async () => {
    const { cert, key } = makeAuthority('servers').issue('localhost');
    server = await startFakeGateway({
      httpListen: '127.0.0.1:0',
      listen: '127.0.0.1:0',
      tlsCert: cert,
      tlsKey: key,
      httpMetrics: true,
      script: spelled('Over **TLS**.'),
      stepMs: 5,
      model: { chatTemplate: TEMPLATE },
    });
    // No system store has the authority: the browser accepts this machine's certificate as it is.
    chromium = Browser.open({ args: ['--ignore-certificate-errors'] });
  });
  afterAll(async () => {
    await chromium?.close();
    await server.stop();
  });

  it('streams an answer, in a secure context, and requests nothing without TLS', async () => {
    const url = `https://127.0.0.1:${server.gateway.httpServer?.port}/`;
    const page = await chromium.tab(url);
    await page.until("document.querySelector('#server-view') !== null");
    expect(await page.evaluate('[location.protocol, isSecureContext]')).toEqual(['https:', true]);
    await page.fill('#prompt', 'Hello.');
    await page.click('#send');
    await expect.poll(() => page.text('.message.assistant strong')).toBe('TLS');
    await page.until("document.querySelector('.stats') !== null");
    expect(page.requests.filter((one) => !one.startsWith(url))).toEqual([]);
    expect([...page.errors, ...page.violations]).toEqual([]);
    await page.close();
  });
});
