import { connect } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type FakeGateway, spelled, startFakeGateway } from '../../../support/fake-gateway.js';
import { ask, rawAnswer } from '../../../support/http.js';

let server: FakeGateway;
beforeAll(async () => {
  server = await startFakeGateway({ script: spelled('ok'), modelName: 'demo', httpListen: '127.0.0.1:0' });
});
afterAll(() => server.stop());

/** Status, headers and body of a response that was read as it was sent. */
function parsed(answer: string) {
  const end = answer.indexOf('\r\n\r\n');
  const [first = '', ...lines] = answer.slice(0, end).split('\r\n');
  const headers = new Map(lines.map((line) => line.toLowerCase().split(': ') as [string, string]));
  return { status: Number(first.split(' ')[1]), headers, error: JSON.parse(answer.slice(end)).error };
}

/** The response to a request whose client sends nothing more and ends its side. */
const halfClosed = (bytes: string) =>
  new Promise<string>((resolve) => {
    const { port } = server.gateway.httpServer!;
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true }, () => socket.end(bytes));
    let heard = '';
    socket.on('data', (data) => {
      heard += data.toString();
    });
    socket.on('error', () => undefined).on('close', () => resolve(heard));
  });

const POST = 'POST /v1/completions HTTP/1.1\r\n';
const HOST = 'Host: localhost\r\n';

describe('a request that HTTP itself refuses', () => {
  it.each<[string, string, number, string]>([
    ['without a Host header', `${POST}Content-Length: 0\r\n\r\n`, 400, 'INVALID_FIELD'],
    ['with an empty Host header', `${POST}Host:\r\nContent-Length: 0\r\n\r\n`, 400, 'INVALID_FIELD'],
    [
      'that expects what no server knows',
      `${POST}${HOST}Expect: foo\r\nContent-Length: 0\r\n\r\n`,
      417,
      'INVALID_FIELD',
    ],
    ['with too large headers', `${POST}${HOST}X: ${'x'.repeat(20_000)}\r\n\r\n`, 431, 'MESSAGE_TOO_LARGE'],
    [
      'with two lengths',
      `${POST}${HOST}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}`,
      400,
      'MALFORMED_MESSAGE',
    ],
  ])('%s has an error with a reason and an id', async (_what, bytes, status, reason) => {
    const { closed } = server.gateway.httpServer!.connections.counters;
    const { headers, ...rest } = parsed(await rawAnswer(server.gateway, bytes));
    expect(rest).toMatchObject({
      status,
      error: { code: reason, type: 'invalid_request_error', message: expect.stringMatching(/\S/) },
    });
    expect(headers.get('content-type')).toMatch(/^application\/json/);
    expect(headers.get('x-request-id')).toMatch(/^[\w-]{36}$/);
    expect(headers.get('connection')).toBe('close');
    expect(server.gateway.httpServer!.connections.counters.closed).toBe(closed);
  });

  it('needs no Host header as HTTP/1.0', async () => {
    expect(await rawAnswer(server.gateway, 'GET /health HTTP/1.0\r\n\r\n')).toMatch(/^HTTP\/1\.[01] 200 /);
  });

  it('says that it was cut where its client ends the connection', async () => {
    const { status, error } = parsed(await halfClosed(`${POST}${HOST}Content-Length: 100\r\n\r\n{`));
    expect([status, error.code]).toEqual([400, 'MALFORMED_MESSAGE']);
    expect(error.message).toContain('before the whole request had arrived');
  });

  it('has no body where it is not HTTP at all', async () => {
    expect(await rawAnswer(server.gateway, 'what is this\r\n\r\n')).toBe(
      'HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n',
    );
  });
});

describe('late headers', () => {
  it.each(['', 'POST / HTTP/1.1\r\nHost: loc'])(
    'are answered with 408 before the connection ends: %j',
    async (bytes) => {
      const slow = await startFakeGateway({ httpListen: '127.0.0.1:0', handshakeTimeoutMs: 500 });
      try {
        const { status, error } = parsed(await rawAnswer(slow.gateway, bytes));
        expect([status, error.code]).toEqual([408, 'SLOW_SENDER']);
        expect(slow.gateway.httpServer!.bodies.counters.slowSenders).toBe(1);
      } finally {
        await slow.stop();
      }
    },
  );
});

describe('/health', () => {
  let ending: FakeGateway;
  beforeEach(async () => {
    ending = await startFakeGateway({ script: spelled('ok'), httpListen: '127.0.0.1:0' });
    expect((await ask(ending.gateway, '/health')).status).toBe(200);
  });
  afterEach(() => ending.stop());

  /** The errors of a health check and of a request. */
  const errors = async () => {
    const answers = [await ask(ending.gateway, '/health'), await ask(ending.gateway, '/completion', { prompt: 'x' })];
    return answers.map(({ status, json }) => [status, json.error.reason, json.error.message]);
  };

  it('has the reason that a request would get for a model that an operator has unloaded', async () => {
    const { router } = ending.gateway.models[0]!;
    void router.unload().catch(() => undefined);
    const [health, request] = await errors();
    expect(health).toEqual([503, 'MODEL_UNLOADED', expect.any(String)]);
    expect(health).toEqual(request);
  });

  it('has it while streams end', async () => {
    const { router } = ending.gateway.models[0]!;
    router.announceEnd();
    expect((await ask(ending.gateway, '/health')).json.error.reason).toBe('SHUTTING_DOWN');
    router.stopAdmission();
    const [health, request] = await errors();
    expect(health).toEqual([503, 'SHUTTING_DOWN', expect.any(String)]);
    expect(health).toEqual(request);
  });
});

it('the properties of a model that is not served are not found, as on other paths', async () => {
  const found = await ask(server.gateway, '/props?model=demo');
  expect([found.status, found.json.model_alias]).toEqual([200, 'demo']);
  const { status, json } = await ask(server.gateway, '/props?model=nope');
  expect([status, json.error.reason, json.error.param]).toEqual([404, 'MODEL_NOT_FOUND', 'model']);
});

it.each([-1, 0, 65, 1.5])('%d completions are refused by one message', async (n) => {
  const { status, json } = await ask(server.gateway, '/v1/completions', { prompt: 'x', n });
  expect([status, json.error.message]).toEqual([400, `n is ${n}; it must be a whole number from 1 to 64`]);
});
