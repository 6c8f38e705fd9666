import { type DescService, fromBinary } from '@bufbuild/protobuf';
import { Code, ConnectError, createClient, type Transport } from '@connectrpc/connect';
import { createConnectTransport, createGrpcWebTransport } from '@connectrpc/connect-node';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { generate, request, startTestGateway, type TestGateway } from '../../../support/gateway.js';
import { API_SERVICE, apiRegistry, ask, baseOf } from '../../../support/http.js';

const registry = apiRegistry();
const service = registry.getService(API_SERVICE) as DescService;

let server: TestGateway;
beforeAll(async () => {
  server = await startTestGateway('models/demo.gguf', { httpListen: '127.0.0.1:0', stepDelayMs: 2 });
});
afterAll(() => server.stop());

const message = {
  input: { case: 'text', value: { text: 'Once upon' } },
  sampling: { temperature: 0 },
  stop: { maxTokens: 12 },
};
const throughGrpc = () =>
  generate(server.client, request({ text: 'Once upon', sampling: { temperature: 0 }, stop: { maxTokens: 12 } }));

// biome-ignore lint/suspicious/noExplicitAny: messages of a service that is known at run time alone
type Messages = Record<string, (...args: any[]) => any>;

const TRANSPORTS: readonly (readonly [name: string, open: (baseUrl: string) => Transport])[] = [
  ['Connect with JSON', (baseUrl) => createConnectTransport({ baseUrl, httpVersion: '1.1', useBinaryFormat: false })],
  ['Connect with bytes', (baseUrl) => createConnectTransport({ baseUrl, httpVersion: '1.1', useBinaryFormat: true })],
  ['gRPC-Web', (baseUrl) => createGrpcWebTransport({ baseUrl, httpVersion: '1.1' })],
];

describe.each(TRANSPORTS)('%s', (_name, open) => {
  let client: Messages;
  beforeAll(() => {
    client = createClient(service, open(baseOf(server.gateway))) as unknown as Messages;
  });

  it('streams and answers with the ids and the text of the gRPC server', async () => {
    const expected = await throughGrpc();
    const ids: number[] = [];
    let text = '';
    let ends = 0;
    for await (const { event } of client.generateStream!(message)) {
      if (event.case === 'complete') ends += 1;
      else {
        ids.push(...event.value.tokenIds);
        text += event.value.text;
      }
    }
    expect([ids, text, ends]).toEqual([expected.tokenIds, expected.text, 1]);
    const whole = await client.generate!(message);
    expect([whole.completions[0].tokenIds, whole.completions[0].text]).toEqual([expected.tokenIds, expected.text]);
    expect(whole.usage.completionTokens).toBe(12);
  });

  it('tells an error with its code and its details', async () => {
    const wrong = { ...message, sampling: { topP: 7 } };
    for (const call of [
      () => client.generate!(wrong),
      async () => {
        for await (const _ of client.generateStream!(wrong));
      },
    ]) {
      const error = ConnectError.from(
        await call().then(
          () => undefined,
          (thrown: unknown) => thrown,
        ),
      );
      expect(error.code).toBe(Code.InvalidArgument);
      const [info] = error.findDetails(registry.getMessage('google.rpc.ErrorInfo')!) as unknown as Record<
        string,
        unknown
      >[];
      expect(info).toMatchObject({
        reason: 'INVALID_FIELD',
        domain: 'rocmforge',
        metadata: { field: 'sampling.top_p' },
      });
    }
  });

  it('ends the generation of a client that leaves, and says nothing to the console', async () => {
    const said = vi.spyOn(console, 'error');
    const gone = new AbortController();
    const long = { ...message, stop: { maxTokens: 900, ignoreEos: true } };
    const stream = client.generateStream!(long, { signal: gone.signal });
    await expect(
      (async () => {
        for await (const _ of stream) gone.abort();
      })(),
    ).rejects.toMatchObject({ code: Code.Canceled });
    await expect.poll(() => server.gateway.replica.counts.running).toBe(0);
    expect(said.mock.calls).toEqual([]);
    said.mockRestore();
  });

  it('turns text into ids and back, and describes the model', async () => {
    const { tokenIds } = await client.tokenize!({ input: { case: 'text', value: { text: 'Once upon' } } });
    expect(await client.detokenize!({ tokenIds })).toMatchObject({ text: 'Once upon' });
    expect((await client.listModels!({})).models.map(({ name }: { name: string }) => name)).toEqual(['demo']);
    await expect(client.getModel!({ model: 'other' })).rejects.toMatchObject({ code: Code.NotFound });
  });
});

describe('an error that the protocol finds', () => {
  const envelope = (bytes: Uint8Array, flags = 0): Buffer => {
    const head = Buffer.alloc(5);
    head[0] = flags;
    head.writeUInt32BE(bytes.length, 1);
    return Buffer.concat([head, bytes]);
  };
  const json = Buffer.from('{"text": {"text": "x"}}');
  const JSON_TYPE = 'application/json';
  const STREAM = 'application/connect+json';
  const WEB = 'application/grpc-web+json';

  /** The details of an error in a response of Connect or gRPC-Web. */
  const reasonIn = (type: string, bytes: Buffer): string => {
    const at = type === JSON_TYPE ? 0 : bytes.length < 5 ? 0 : 5;
    const text = bytes.subarray(at).toString();
    const info = registry.getMessage('google.rpc.ErrorInfo')!;
    const status = registry.getMessage('google.rpc.Status')!;
    const [, packed] = /^grpc-status-details-bin: (.*)\r$/m.exec(text) ?? [];
    if (packed !== undefined) {
      const decoded = fromBinary(status, Buffer.from(packed, 'base64')) as unknown as {
        details: { value: Uint8Array }[];
      };
      return (fromBinary(info, decoded.details[0]!.value) as unknown as { reason: string }).reason;
    }
    const body = JSON.parse(text);
    const [detail] = (body.error ?? body).details;
    expect(detail.type).toBe('google.rpc.ErrorInfo');
    return (fromBinary(info, Buffer.from(detail.value, 'base64')) as unknown as { reason: string }).reason;
  };

  it.each<[string, string, string, string | Buffer, Record<string, string>, string]>([
    ['an unknown field', 'Generate', JSON_TYPE, '{"bogus": 1}', {}, 'MALFORMED_MESSAGE'],
    ['one of a stream', 'GenerateStream', STREAM, envelope(Buffer.from('{"bogus": 1}')), {}, 'MALFORMED_MESSAGE'],
    ['one over gRPC-Web', 'Generate', WEB, envelope(Buffer.from('{"bogus": 1}')), {}, 'MALFORMED_MESSAGE'],
    ['an incomplete envelope', 'GenerateStream', STREAM, envelope(json).subarray(0, 9), {}, 'MALFORMED_MESSAGE'],
    ['half of its head', 'GenerateStream', STREAM, Buffer.alloc(3), {}, 'MALFORMED_MESSAGE'],
    ['no message', 'GenerateStream', STREAM, Buffer.alloc(0), {}, 'NOT_IMPLEMENTED'],
    ['two messages', 'GenerateStream', STREAM, Buffer.concat([envelope(json), envelope(json)]), {}, 'NOT_IMPLEMENTED'],
    ['bad gzip', 'Generate', JSON_TYPE, 'x', { 'content-encoding': 'gzip' }, 'MALFORMED_MESSAGE'],
    ['an unknown encoding', 'Generate', JSON_TYPE, 'x', { 'content-encoding': 'zip' }, 'NOT_IMPLEMENTED'],
    ['a deadline that is no number', 'Generate', JSON_TYPE, json, { 'connect-timeout-ms': 'x' }, 'MALFORMED_MESSAGE'],
    ['a deadline that has passed', 'Generate', JSON_TYPE, json, { 'connect-timeout-ms': '0' }, 'DEADLINE_EXCEEDED'],
    ['another content type', 'Generate', 'text/plain', json, {}, 'CONTENT_TYPE_UNSUPPORTED'],
    ['another method', 'Dance', JSON_TYPE, json, {}, 'PATH_NOT_FOUND'],
  ])('has a reason in its details: %s', async (_what, name, type, body, headers, reason) => {
    const response = await fetch(`${baseOf(server.gateway)}/${API_SERVICE}/${name}`, {
      method: 'POST',
      headers: { 'content-type': type, ...headers },
      body: body as string,
    });
    const bytes = Buffer.from(await response.arrayBuffer());
    const isJson = response.headers.get('content-type')?.startsWith(JSON_TYPE);
    expect(reasonIn(isJson ? JSON_TYPE : type, bytes), bytes.toString()).toBe(reason);
  });
});

describe('a path of the service', () => {
  it('is asked with plain JSON', async () => {
    const { status, json } = await ask(server.gateway, `/${API_SERVICE}/Tokenize`, { text: { text: 'Once upon' } });
    expect([status, json.tokenIds.length]).toEqual([200, 2]);
    const refused = await ask(server.gateway, `/${API_SERVICE}/Generate`, { text: { text: 'x' }, n: 0 });
    expect(refused).toMatchObject({ status: 400, json: { code: 'invalid_argument', message: 'n must be at least 1' } });
  });

  it('computes nothing more when the deadline is over, though its client stays', async () => {
    const { replica } = server.gateway;
    const timedOut = async (): Promise<number> => {
      const metrics = await server.gateway.metrics.registry.metrics();
      return Number(/^rocmforge_request_total\{.*outcome="DEADLINE_EXCEEDED"\} (\d+)$/m.exec(metrics)?.[1] ?? 0);
    };
    const timedOutBefore = await timedOut();
    const before = replica.counts.steps;
    const long = { text: { text: 'Once upon' }, stop: { max_tokens: 900, ignore_eos: true } };
    const headers = { 'connect-timeout-ms': '60' };
    const answer = await ask(server.gateway, `/${API_SERVICE}/Generate`, long, { headers });
    expect(answer.json).toMatchObject({ code: 'deadline_exceeded' });
    await expect.poll(() => replica.counts.running + replica.counts.waiting).toBe(0);
    expect(await timedOut()).toBe(timedOutBefore + 1);
    expect(await server.gateway.metrics.registry.metrics()).not.toMatch(/rejected.*reason="DEADLINE_EXCEEDED"/);
    expect(replica.counts.steps - before).toBeLessThan(900);
  });

  it('refuses what is unknown or too large by name', async () => {
    const unknown = await ask(server.gateway, `/${API_SERVICE}/Generate`, { text: { text: 'x' }, temprature: 1 });
    expect(unknown).toMatchObject({ status: 400 });
    expect(unknown.json.message).toContain('temprature');
    const large = await ask(server.gateway, `/${API_SERVICE}/Generate`, { text: { text: 'x'.repeat(300_000) } });
    expect(large).toMatchObject({ status: 429, json: { code: 'resource_exhausted' } });
    expect((await ask(server.gateway, `/${API_SERVICE}/Dance`, {})).status).toBe(404);
  });
});
