import { expect, it } from 'vitest';
import { startFakeGateway } from '../../../support/fake-gateway.js';
import { ask, rawAnswer } from '../../../support/http.js';

const HEAD = [
  'POST /v1/completions HTTP/1.1',
  'Host: 127.0.0.1',
  'Content-Type: application/json',
  'Transfer-Encoding: chunked',
  'Connection: close',
].join('\r\n');
/** A body of this many bytes as chunks of one byte each. */
const inPieces = (body: string) => [...body].map((byte) => `1\r\n${byte}\r\n`).join('');

it('a body in pieces of one byte is read, and refused when its pieces cost more than a body may', async () => {
  const { gateway, stop } = await startFakeGateway({ httpListen: '127.0.0.1:0' });
  try {
    const body = JSON.stringify({ prompt: 'the fox', max_tokens: 1 });
    expect(await rawAnswer(gateway, `${HEAD}\r\n\r\n${inPieces(body)}0\r\n\r\n`)).toMatch(/^HTTP\/1\.1 200 /);
    const costly = inPieces(' '.repeat(6000));
    expect(await rawAnswer(gateway, `${HEAD}\r\n\r\n${costly}`)).toMatch(/^HTTP\/1\.1 413 /);
    expect(gateway.httpServer?.bodies.counters.refused).toBe(1);
    expect((await ask(gateway, '/health')).status).toBe(200);
  } finally {
    await stop();
  }
});
