import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { browser, Page } from '../../../support/browser.js';
import { startTestGateway, type TestGateway } from '../../../support/gateway.js';
import { baseOf } from '../../../support/http.js';

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

describe.skipIf(browser === undefined)('the page of several models', () => {
  let server: TestGateway;
  let page: Page;
  beforeAll(async () => {
    server = await startTestGateway('models/demo.gguf', {
      moreModels: [{ model: 'models/demo.gguf', modelName: 'other' }],
      httpListen: '127.0.0.1:0',
    });
    page = await Page.open(`${baseOf(server.gateway)}/`);
  }, 60_000);
  afterAll(async () => {
    await page?.close();
    await server.stop();
  });

  it('asks the one that is chosen', async () => {
    const names = "[...document.getElementById('models').options].map(({ value }) => value).join()";
    await expect.poll(() => page.evaluate(names)).toBe('demo,other');
    expect(await page.evaluate("document.getElementById('models').hidden")).toBe(false);
    await page.evaluate(`
      document.getElementById('models').value = 'other';
      document.getElementById('models').dispatchEvent(new Event('change'));
      document.getElementById('prompt').value = 'Hello';
      document.getElementById('send').click();
    `);
    expect(await page.evaluate("document.getElementById('model').textContent")).toBe('other');
    const steps = () => server.gateway.models.map(({ router }) => router.counts.steps > 0);
    await expect.poll(steps, { timeout: 20_000 }).toEqual([false, true]);
  }, 60_000);
});
