import { spawn } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { browser, Page } from '../../../support/browser.js';
import { buildPage } from '../../../support/page-files.js';

buildPage();

/** `rocmforge demo --page`, from `dist/`. */
async function startDemo(): Promise<{ readonly url: string; stop(): Promise<void> }> {
  const child = spawn(process.execPath, ['dist/cli/main.js', 'demo', '--page', '--port', '0', '--device', 'host'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const url = await new Promise<string>((resolve, reject) => {
    let text = '';
    child.stdout.on('data', (data) => {
      text += data;
      const [found] = /http:\S+/.exec(text) ?? [];
      if (found !== undefined) resolve(found);
    });
    child.once('exit', () => reject(new Error(`the demo has ended: ${text}`)));
  });
  return {
    url,
    stop: async () => {
      child.kill('SIGTERM');
      await ended;
    },
  };
}

describe.skipIf(browser === undefined)('the demo page', () => {
  let demo: Awaited<ReturnType<typeof startDemo>>;
  let page: Page;
  beforeAll(async () => {
    demo = await startDemo();
    page = await Page.open(demo.url);
  });
  afterAll(async () => {
    await page?.close();
    await demo?.stop();
  });

  /** The text of an answer, without marks. */
  const answer = () =>
    page.evaluate<string>(`(() => {
      const content = [...document.querySelectorAll('.message.assistant .content')].at(-1)?.cloneNode(true);
      content?.querySelectorAll('.recovery').forEach((mark) => mark.remove());
      return content?.textContent ?? '';
    })()`);
  const send = async () => {
    await page.click('#new-chat');
    await page.until("document.querySelector('.empty') !== null");
    await page.fill('#prompt', 'Tell me a story about a brave fox.');
    await page.click('#send');
    await page.until("document.querySelectorAll('.message').length === 2");
  };
  const isDone = () => page.until("document.querySelector('#send') !== null");

  it('shows three kills during one answer, whose text is the same as without', async () => {
    await page.click('#settings-button');
    await page.fill('#temperature', '0');
    await page.fill('#max_tokens', '120');
    await send();
    await isDone();
    const undisturbed = await answer();
    expect(undisturbed.length).toBeGreaterThan(100);
    await send();
    for (let kills = 1; kills <= 3; kills += 1) {
      const length = (await answer()).length;
      await page.until(`document.querySelector('.message.assistant .content').textContent.length > ${length + 20}`);
      await page.click('#kill');
      await page.until(`document.querySelectorAll('.recovery:not(.is-open)').length === ${kills}`);
    }
    await isDone();
    expect(await answer()).toBe(undisturbed);
    const marks = await page.evaluate<string[]>(
      "[...document.querySelectorAll('.recovery')].map((one) => one.textContent)",
    );
    console.log(marks.join('; '));
    expect(marks).toHaveLength(3);
    for (const mark of marks) expect(mark).toMatch(/^executor lost, continued after [\d.]+ m?s$/);
    expect(await page.text('.stats')).toContain('3 recoveries');
    expect(await page.text('[role=status]')).toBe('The answer is complete.');
  });

  it('tells how long recoveries took in the view of the server', async () => {
    await page.click('#server-view');
    await expect.poll(() => page.text('.server')).toMatch(/3 since the start, [\d.]+ m?s on average/);
    expect(page.errors).toEqual([]);
  });
});
