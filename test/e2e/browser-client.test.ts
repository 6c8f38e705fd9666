import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { newToken } from '../../src/gateway/trust/tokens.js';
import { packageRoot } from '../../src/shared/package.js';
import { browser, Page } from '../support/browser.js';
import { startTestGateway, type TestGateway } from '../support/gateway.js';
import { baseOf } from '../support/http.js';

describe.skipIf(browser === undefined)('examples/browser/client.html, from another origin', () => {
  const { token, line } = newToken('page');
  let server: TestGateway;
  let pages: Server;
  let page: Page;
  beforeAll(async () => {
    const tokenFile = path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'tokens');
    writeFileSync(tokenFile, `${line}\n`);
    server = await startTestGateway('models/demo.gguf', { httpListen: '127.0.0.1:0', stepDelayMs: 10, tokenFile });
    const html = readFileSync(path.join(packageRoot, 'examples', 'browser', 'client.html'));
    pages = createServer((_request, response) => response.setHeader('content-type', 'text/html').end(html));
    await new Promise<void>((resolve) => pages.listen(0, '127.0.0.1', resolve));
    const { port } = pages.address() as AddressInfo;
    const address = encodeURIComponent(baseOf(server.gateway));
    page = await Page.open(`http://127.0.0.1:${port}/client.html?${address}#token=${token}`);
  });
  afterAll(async () => {
    await page?.close();
    pages?.close();
    await server?.stop();
  });

  it('streams, cancels, meets its deadline, and reads the details of an error', async () => {
    const told = () => page.evaluate<string>("document.getElementById('out').textContent");
    await expect.poll(told).toMatch(/done\n$/);
    const text = await told();
    expect(text).toMatch(/\nFINISH_REASON_(LENGTH|STOP)\w*: \d+ tokens\n/);
    expect(text).toMatch(/^cancelled after 3 chunks: AbortError$/m);
    expect(text).toMatch(/^with a deadline of 200 ms: deadline_exceeded$/m);
    expect(text).toMatch(/^with top_p 2: invalid_argument INVALID_FIELD: .*top_p.* \(sampling.top_p\)$/m);
    await expect.poll(() => server.gateway.replica.counts.running).toBe(0);
  });
});
