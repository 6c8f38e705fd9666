import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { browser, Page } from '../../../support/browser.js';
import { type FakeGateway, startFakeGateway } from '../../../support/fake-gateway.js';
import { baseOf } from '../../../support/http.js';
import { buildPage } from '../../../support/page-files.js';
import { type PageProxy, scriptedDeltas, startPageProxy } from '../../../support/page-proxy.js';

buildPage();

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const ANSWER = `# One

A **bold** word, \`code\` and a [link](https://example.com).

- item
- item

| a | b |
| - | - |
| 1 | 2 |

\`\`\`js
const a = 'text'; // a comment
function f(x) { return 1 + x; }
\`\`\`

> quote
`;

interface Violation {
  readonly id: string;
  readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[];
}

describe.skipIf(browser === undefined)('the page', () => {
  let server: FakeGateway;
  let proxy: PageProxy;
  let page: Page;
  beforeAll(async () => {
    server = await startFakeGateway({ httpListen: '127.0.0.1:0', httpMetrics: true });
    proxy = await startPageProxy(baseOf(server.gateway));
    page = await Page.open(proxy.url);
    await page.until("document.querySelector('#server-view') !== null");
    await page.evaluate(`${AXE}; true`);
  });
  afterAll(async () => {
    await page?.close();
    await proxy?.stop();
    await server.stop();
  });

  const violations = async () => {
    const found = await page.evaluate<readonly Violation[]>(
      'axe.run(document).then(({ violations }) => violations.map(({ id, nodes }) => ({ id, nodes: nodes.map(({ html, failureSummary }) => ({ html, failureSummary })) })))',
    );
    return found.map(({ id, nodes }) => `${id}: ${nodes[0]?.html} ${nodes[0]?.failureSummary}`);
  };
  const scheme = (value: 'light' | 'dark') =>
    page.send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value }] });
  const answered = () => page.until("document.querySelector('.stats')?.textContent.includes('123.4')");

  it.each(['light', 'dark'] as const)('has no violation that axe-core finds, %s', async (value) => {
    await scheme(value);
    expect(await violations()).toEqual([]);
  });

  it('has none with an answer, reasoning, a tool call and settings', async () => {
    const call = { index: 0, id: 'x', type: 'function', function: { name: 'f', arguments: '{"a":1}' } };
    proxy.answer = scriptedDeltas(
      [{ reasoning_content: 'hm' }, { content: ANSWER }, { tool_calls: [call] }],
      'tool_calls',
    );
    await page.fill('#prompt', 'Everything.');
    await page.click('#send');
    await answered();
    await page.until("document.querySelector('.hljs-keyword') !== null");
    await page.click('#settings-button');
    for (const value of ['light', 'dark'] as const) {
      await scheme(value);
      expect(await violations()).toEqual([]);
    }
    await page.click('#settings-button');
  });

  it('has none in the view of the server', async () => {
    await page.click('#server-view');
    await page.until("document.querySelector('.plot') !== null");
    expect(await violations()).toEqual([]);
    await page.click('#server-view');
  });

  it('is used on a phone: nothing is wider than the screen, and the list of conversations opens', async () => {
    await page.send('Emulation.setDeviceMetricsOverride', {
      width: 360,
      height: 640,
      deviceScaleFactor: 2,
      mobile: true,
    });
    await page.until('innerWidth === 360');
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(360);
    await page.click('[aria-label=Conversations].only-narrow');
    await page.until("document.querySelector('.conversations.is-open') !== null");
    expect(await violations()).toEqual([]);
    await page.click('#new-chat');
    await page.send('Emulation.clearDeviceMetricsOverride', {});
  });

  it('is used by keyboard: Enter sends, the focus returns to the field, Escape stops', async () => {
    await page.until("document.querySelector('.empty') !== null");
    proxy.answer = (_body, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('data: {"choices":[{"index":0,"delta":{"content":"Once"}}]}\n\n');
    };
    await page.evaluate("document.querySelector('#prompt').focus()");
    await page.fill('#prompt', 'By keyboard.');
    await page.press('Enter');
    await expect.poll(() => page.text('.message.assistant .content')).toBe('Once');
    expect(await page.evaluate('document.activeElement.id')).toBe('prompt');
    await page.press('Escape');
    await expect.poll(() => page.text('.message.assistant .note')).toBe('Stopped.');
    expect(await page.text('.app > [role=status]')).toBe('The answer was stopped.');
  });
});
