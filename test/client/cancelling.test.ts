import { getEventListeners } from 'node:events';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { RocmForgeClient, RocmForgeClientError } from '../../src/client/index.js';
import { type FakeGateway, startFakeGateway } from '../support/fake-gateway.js';

/** Longer than any test. */
const endless = {
  input: { $case: 'text', value: { text: 'the fox' } },
  stop: { maxTokens: 4000, ignoreEos: true },
} as const;

let server: FakeGateway;
let client: RocmForgeClient;
beforeEach(async () => {
  server = await startFakeGateway({ stepMs: 5 });
  client = new RocmForgeClient(server.address);
});
afterEach(async () => {
  client?.close();
  await server?.stop();
});

const running = () => server.gateway.replica.active;

/** Reads a stream to its end or error. */
async function drain(options: { signal?: AbortSignal; deadlineMs?: number }, onEvent = () => {}): Promise<void> {
  for await (const _event of client.generateStream(endless, options)) onEvent();
}

const failure = (promise: Promise<unknown>) =>
  promise.then(
    () => undefined,
    (error: unknown) => error as RocmForgeClientError,
  );

describe('a generation ends at the gateway', () => {
  it('when its reader leaves the loop', async () => {
    for await (const _event of client.generateStream(endless)) {
      expect(running()).toBe(1);
      break;
    }
    await expect.poll(running).toBe(0);
  });

  it('when the loop throws, whose error stays', async () => {
    const own = new Error('of the loop');
    const thrown = drain({}, () => {
      throw own;
    });
    await expect(thrown).rejects.toBe(own);
    await expect.poll(running).toBe(0);
  });

  it('when the signal is aborted in its middle', async () => {
    const { signal, abort } = abortable();
    const error = await failure(drain({ signal }, abort));
    expect(error).toBeInstanceOf(RocmForgeClientError);
    expect(error).toMatchObject({ code: 'CANCELLED', reason: undefined });
    await expect.poll(running).toBe(0);
  });

  it('when the deadline passes', async () => {
    expect(await failure(drain({ deadlineMs: 100 }))).toMatchObject({ code: 'DEADLINE_EXCEEDED' });
    await expect.poll(running).toBe(0);
  });

  it('unary, when the signal is aborted', async () => {
    const { signal, abort } = abortable();
    const failed = failure(client.generate(endless, { signal }));
    await expect.poll(running).toBe(1);
    abort();
    expect(await failed).toMatchObject({ code: 'CANCELLED' });
    await expect.poll(running).toBe(0);
  });
});

describe('a call', () => {
  it('whose signal was aborted before fails at once', async () => {
    const signal = AbortSignal.abort();
    expect(await failure(drain({ signal }))).toMatchObject({ code: 'CANCELLED' });
    expect(await failure(client.generate(endless, { signal }))).toMatchObject({ code: 'CANCELLED' });
  });

  it('that has ended leaves nothing at the signal', async () => {
    const { signal } = abortable();
    await client.tokenize({ input: endless.input }, { signal });
    for await (const _event of client.generateStream({ ...endless, stop: { maxTokens: 2 } }, { signal }));
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  it('that is left leaves the others of the client alone', async () => {
    const other = client.generate({ ...endless, stop: { maxTokens: 40, ignoreEos: true } });
    for await (const _event of client.generateStream(endless)) break;
    expect((await other).usage?.completionTokens).toBe(40);
  });
});

function abortable(): { signal: AbortSignal; abort: () => void } {
  const controller = new AbortController();
  return { signal: controller.signal, abort: () => controller.abort() };
}
