import { request as httpRequest } from 'node:http';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type FakeGateway, spelled, startFakeGateway } from '../../../support/fake-gateway.js';
import { ask, baseOf } from '../../../support/http.js';

let server: FakeGateway;
beforeAll(async () => {
  server = await startFakeGateway({ script: spelled('ok'), modelName: 'demo', httpListen: '127.0.0.1:0' });
});
afterAll(() => server.stop());

const COMPLETIONS = '/v1/completions';
const body = { prompt: 'x', max_tokens: 4 };

/** Sends a request with exactly these headers: fetch adds a browser's. */
function sent(path: string, bytes: string | Buffer, headers: Record<string, string>) {
  return new Promise<{ readonly status: number | undefined; readonly text: string }>((resolve, reject) => {
    const call = httpRequest(`${baseOf(server.gateway)}${path}`, { method: 'POST', headers }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (data) => {
        text += data;
      });
      response.on('end', () => resolve({ status: response.statusCode, text }));
    });
    call.on('error', reject).end(bytes);
  });
}

describe('paths', () => {
  it.each(['/v1/completions/', '//v1/completions', '/v1//completions', '/v1/completions/?x=1'])(
    'are the same with the slashes of a base URL: %s',
    async (path) => {
      const { status, json } = await ask(server.gateway, path, body);
      expect([status, json.choices[0].text]).toEqual([200, 'ok']);
    },
  );

  it('of OpenAI’s responses are served without /v1, too', async () => {
    const { status, json } = await ask(server.gateway, '/responses/resp_none');
    expect([status, json.error.code]).toEqual([
      404,
      (await ask(server.gateway, '/v1/responses/resp_none')).json.error.code,
    ]);
    expect(json.error.code).not.toBe('PATH_NOT_FOUND');
  });

  it('name their methods where another one is used', async () => {
    const { gateway } = server;
    const allowOf = async (path: string, method: string) => {
      const { status, headers } = await ask(gateway, path, undefined, { method });
      return [status, headers.get('allow')];
    };
    expect(await allowOf(COMPLETIONS, 'GET')).toEqual([405, 'POST']);
    expect(await allowOf('/v1/models', 'DELETE')).toEqual([405, 'GET, HEAD']);
    expect(await allowOf('/v1/responses/r', 'OPTIONS')).toEqual([405, 'GET, HEAD, DELETE']);
  });

  it('answer HEAD with the headers of GET', async () => {
    for (const path of ['/', '/v1/models', '/health', '/api/tags', '/api/version', '/props']) {
      const [got, head] = [
        await ask(server.gateway, path),
        await ask(server.gateway, path, undefined, { method: 'HEAD' }),
      ];
      expect([head.status, head.text]).toEqual([got.status, '']);
      for (const name of ['content-type', 'content-length']) expect(head.headers.get(name)).toBe(got.headers.get(name));
    }
  });
});

describe('bodies', () => {
  it.each([
    ['application/json;charset=utf-8'],
    ['Application/JSON ; charset="UTF-8"'],
    // As curl sends them, and Ollama's documentation.
    ['application/x-www-form-urlencoded'],
    ['text/plain'],
    [''],
  ])('of the type "%s" are read from clients that are no browsers', async (type) => {
    const { status, text } = await sent(COMPLETIONS, JSON.stringify(body), type === '' ? {} : { 'content-type': type });
    expect([status, JSON.parse(text).choices?.[0].text]).toEqual([200, 'ok']);
  });

  it.each([
    ['origin', 'null'],
    ['origin', 'http://a.example'],
    ['sec-fetch-site', 'cross-site'],
    ['referer', 'http://a'],
  ])(
    'of another type than JSON are refused with the header %s: %s, which pages cannot leave out',
    async (name, value) => {
      for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data', '']) {
        const headers = { [name]: value, ...(type !== '' && { 'content-type': type }) };
        expect((await sent(COMPLETIONS, JSON.stringify(body), headers)).status).toBe(415);
      }
    },
  );

  it('that are compressed are refused by their encoding', async () => {
    const headers = { 'content-type': 'application/json', 'content-encoding': 'gzip' };
    const { status, text } = await sent(COMPLETIONS, gzipSync(JSON.stringify(body)), headers);
    expect([status, JSON.parse(text).error.message]).toEqual([415, expect.stringContaining('"gzip"')]);
  });

  it.each<[string, string, number]>([
    ['a repeated key', '{"max_tokens": 0, "prompt": "x", "max_tokens": 4}', 200],
    ['escapes in names and texts', '{"\\u0070rompt": "\\ud83d\\ude00\\u0041\\/", "max_tokens": 4}', 200],
    ['a byte order mark', '\ufeff{"prompt": "x", "max_tokens": 4}', 200],
    ['space around it', ' \r\n\t{"prompt": "x", "max_tokens": 4} \n', 200],
    [
      'numbers in other notations',
      '{"prompt": "x", "max_tokens": 4e0, "temperature": 1E-400, "seed": 18446744073709551615}',
      200,
    ],
    [
      'a number beyond doubles in a field that is ignored',
      `{"prompt": "x", "max_tokens": 4, "z": 1e99999, "y": ${'9'.repeat(500)}}`,
      200,
    ],
    [
      'depth in a field that is ignored',
      `{"prompt": "x", "max_tokens": 4, "z": ${'['.repeat(200)}${']'.repeat(200)}}`,
      200,
    ],
    ['too much depth', `{"prompt": "x", "z": ${'['.repeat(300)}${']'.repeat(300)}}`, 400],
    ['a number beyond doubles', '{"prompt": "x", "temperature": 1e400}', 400],
    ['a limit that is no whole number', '{"prompt": "x", "max_tokens": 1.5}', 400],
    ['half of a character', '{"prompt": "\\ud800"}', 400],
    ['names of every object', '{"prompt": "x", "max_tokens": 4, "__proto__": {"n": 5}, "constructor": 1}', 200],
  ])('with %s', async (_what, text, status) => {
    const answer = await ask(server.gateway, COMPLETIONS, text);
    expect([answer.status, answer.text]).toEqual([status, expect.any(String)]);
    if (status === 200) expect(answer.json.choices).toHaveLength(1);
    else expect(answer.json.error.type).toBe('invalid_request_error');
  });
});
