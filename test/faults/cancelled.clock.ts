import { spawn } from 'node:child_process';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { HostedModel } from '../../src/gateway/hosted-model.js';
import { browser, Page } from '../support/browser.js';
import { startTestGateway, type TestGateway } from '../support/gateway.js';
import { baseOf } from '../support/http.js';

const MOST_MS = 100;
/** The least of so many counts: what else runs on the machine makes others longer. */
const TRIES = 3;

const MESSAGES = [{ role: 'user' as const, content: 'Tell me a long story about a fox.' }];
const ASKED = { model: 'demo', messages: MESSAGES, stream: true as const, max_tokens: 900, ignore_eos: true };

/** Begins a stream. @returns leaves it, once some of it has come */
type Client = () => Promise<() => unknown>;

describe('a request whose client leaves', () => {
  let server: TestGateway;
  beforeAll(async () => {
    server = await startTestGateway('models/demo.gguf', { httpListen: '127.0.0.1:0', stepDelayMs: 5 });
  });
  afterAll(() => server.stop());

  /** Milliseconds from when a client leaves until its request has ended, the least of several times. */
  async function endedAfter(client: Client): Promise<number> {
    const times: number[] = [];
    const ends = vi.spyOn((server.gateway.models[0] as HostedModel).observer, 'requestEnded');
    try {
      for (let i = 0; i < TRIES; i++) {
        const leave = await client();
        expect(server.gateway.replica.counts.running).toBe(1);
        let endedAt = Number.NaN;
        ends.mockImplementationOnce((outcome) => {
          expect(outcome).toBe('cancelled');
          endedAt = performance.now();
        });
        const leftAt = performance.now();
        await leave();
        await expect.poll(() => endedAt, { interval: 5, timeout: 10_000 }).toBeGreaterThanOrEqual(leftAt);
        await expect.poll(() => server.gateway.replica.counts.running).toBe(0);
        times.push(endedAt - leftAt);
      }
    } finally {
      ends.mockRestore();
    }
    return Math.min(...times);
  }

  it('has ended within 100 ms: the openai package', async () => {
    const openai = new OpenAI({ baseURL: `${baseOf(server.gateway)}/v1`, apiKey: 'none', maxRetries: 0 });
    const begin: Client = async () => {
      const stream = await openai.chat.completions.create(ASKED as OpenAI.ChatCompletionCreateParamsStreaming);
      await stream[Symbol.asyncIterator]().next();
      return () => stream.controller.abort();
    };
    expect(await endedAfter(begin)).toBeLessThan(MOST_MS);
  });

  it('has ended within 100 ms: curl', async () => {
    const begin: Client = async () => {
      const url = `${baseOf(server.gateway)}/v1/chat/completions`;
      const json = ['-H', 'content-type: application/json', '-d', JSON.stringify(ASKED)];
      const curl = spawn('curl', ['-sN', ...json, url], { stdio: ['ignore', 'pipe', 'ignore'] });
      await new Promise((resolve) => curl.stdout.once('data', resolve));
      curl.stdout.resume();
      return () => curl.kill('SIGINT');
    };
    expect(await endedAfter(begin)).toBeLessThan(MOST_MS);
  });

  it.skipIf(browser === undefined)('has ended within 100 ms: the page in a browser', async () => {
    const page = await Page.open(`${baseOf(server.gateway)}/`);
    try {
      await expect.poll(() => page.evaluate("document.getElementById('model').textContent")).toBe('demo');
      const begin: Client = async () => {
        await page.fill('#prompt', MESSAGES[0]?.content ?? '');
        await page.click('#send');
        await expect.poll(() => server.gateway.replica.counts.running, { timeout: 10_000 }).toBe(1);
        return () => page.click('#stop-answer');
      };
      expect(await endedAfter(begin)).toBeLessThan(MOST_MS);
    } finally {
      await page.close();
    }
  });
});
