import { mkdtempSync, writeFileSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startTestGateway, type TestGateway } from '../../../support/gateway.js';
import { ask, baseOf, eventsOf, rawAnswer } from '../../../support/http.js';
import { Random } from '../../../support/random.js';
import { runs } from '../../../support/run-size.js';

let server: TestGateway;
beforeAll(async () => {
  server = await startTestGateway('models/demo.gguf', { httpListen: '127.0.0.1:0' });
});
afterAll(() => server.stop());

const chat = { messages: [{ role: 'user', content: 'Tell me a story.' }], temperature: 0, max_tokens: 16 };
const CHAT = '/v1/chat/completions';

const raw = (bytes: string) => rawAnswer(server.gateway, bytes);

describe('the HTTP server', () => {
  it('shows a page that asks nobody else for anything', async () => {
    const { status, headers, text } = await ask(server.gateway, '/');
    expect([status, headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
    expect(text).not.toMatch(/(src|href)="(?!page\/)|https?:\/\//);
  });

  it('refuses a path that is none, a method that is not the path’s, and a body that is not JSON', async () => {
    const { gateway } = server;
    expect(await ask(gateway, '/v2/models')).toMatchObject({
      status: 404,
      json: { error: { code: 'PATH_NOT_FOUND' } },
    });
    expect(await ask(gateway, CHAT)).toMatchObject({ status: 405, json: { error: { code: 'METHOD_NOT_ALLOWED' } } });
    const form = { headers: { 'content-type': 'text/plain' } };
    expect(await ask(gateway, CHAT, JSON.stringify(chat), form)).toMatchObject({ status: 415 });
    for (const body of ['', '{', '[1]', '"x"', 'null', '{"messages": "x"}', '['.repeat(100_000), '\ufeff{}', '{}']) {
      const { status, json } = await ask(gateway, CHAT, body);
      expect([status, json.error.type]).toEqual([400, 'invalid_request_error']);
    }
    const notUtf8 = Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]);
    expect(await ask(gateway, CHAT, notUtf8)).toMatchObject({ status: 400 });
  });

  it('refuses a body that is too large, told or not', async () => {
    const { port } = server.gateway.httpServer!;
    const most = 4 << 20;
    const headers = { 'content-type': 'application/json' };
    const told = await new Promise<number | undefined>((resolve) => {
      const call = httpRequest({
        port,
        path: CHAT,
        method: 'POST',
        headers: { ...headers, 'content-length': most + 1 },
      });
      call.on('response', ({ statusCode }) => resolve(statusCode)).on('error', () => undefined);
      call.write('{');
    });
    expect(told).toBe(413);
    const untold = await new Promise<number | undefined>((resolve) => {
      const call = httpRequest({ port, path: CHAT, method: 'POST', headers });
      call.on('response', ({ statusCode }) => resolve(statusCode)).on('error', () => undefined);
      for (let sent = 0; sent <= most; sent += 1 << 16) call.write(' '.repeat(1 << 16));
    });
    expect(untold).toBe(413);
  });

  it('reads a large request in a thread, with the answer of a small one', async () => {
    const words = 'the fox ran over the hill and '.repeat(20);
    const prompt = words.repeat(1);
    const body = { prompt, max_tokens: 4, temperature: 0 };
    const small = await ask(server.gateway, '/v1/completions', body);
    // White space between the fields makes it large and changes nothing.
    const padded = JSON.stringify(body).replace('{', `{${' '.repeat(40_000)}`);
    const large = await ask(server.gateway, '/v1/completions', padded);
    expect([small.status, large.status]).toEqual([200, 200]);
    expect(large.json.choices).toEqual(small.json.choices);
    const wrong = await ask(server.gateway, '/v1/completions', padded.replace('"prompt"', '"promt"'));
    expect(wrong).toMatchObject({ status: 400, json: { error: { param: 'prompt' } } });
  });

  it('answers what is not HTTP with 400, and ends a connection that sends requests before it has answers', async () => {
    expect(await raw('what is this\r\n\r\n')).toMatch(/^HTTP\/1\.1 400 /);
    const body = JSON.stringify({ ...chat, max_tokens: 900, ignore_eos: true });
    const one = `POST ${CHAT} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
    expect(await raw(one.repeat(2000))).toBe('');
    expect((await ask(server.gateway, '/health')).json).toEqual({ status: 'ok' });
  });

  it('serves many requests over one connection, one after the other', async () => {
    const answers: string[] = [];
    for (let i = 0; i < 20; i++) answers.push((await ask(server.gateway, '/v1/models')).text);
    expect(new Set(answers).size).toBe(1);
  });

  it('survives requests that were mutated, and tells each its error', async () => {
    const random = new Random(11);
    const texts = [
      JSON.stringify({ ...chat, stream: true, stop: ['x'], logit_bias: { 5: 1 }, seed: 1, n: 2, logprobs: true }),
      JSON.stringify({ prompt: [1, 2, 3], max_tokens: 2, echo: true, logprobs: 2 }),
    ];
    const statuses = new Set<number>();
    for (let i = 0; i < runs(600); i++) {
      const bytes = Buffer.from(texts[i % 2]!);
      for (let change = 0; change <= random.below(3); change++) bytes[random.below(bytes.length)] = random.below(256);
      const path = i % 2 === 0 ? CHAT : '/v1/completions';
      const { status, text } = await ask(server.gateway, path, new Uint8Array(bytes));
      statuses.add(status);
      if (status !== 200) expect(JSON.parse(text).error.message).toMatch(/\S/);
    }
    expect([...statuses].filter((status) => ![200, 400, 404].includes(status))).toEqual([]);
    expect(server.gateway.executorEpoch()).toBe(1);
  });
});

describe('llama.cpp’s paths', () => {
  it('complete a prompt, whole and streamed, with the same text', async () => {
    const body = { prompt: 'Once upon', n_predict: 12, temperature: 0, return_tokens: true };
    const { json } = await ask(server.gateway, '/completion', body);
    expect(json).toMatchObject({ stop: true, stop_type: 'limit', tokens_predicted: 12, truncated: false });
    expect(json.tokens).toHaveLength(12);
    expect(json.timings).toMatchObject({ predicted_n: 12 });
    const { text } = await ask(server.gateway, '/completion', { ...body, stream: true });
    const events = eventsOf(text).map((event) => JSON.parse(event));
    expect(events.map(({ content }) => content).join('')).toBe(json.content);
    expect(events.map(({ stop }) => stop).lastIndexOf(false)).toBe(events.length - 2);
    expect(events.at(-1)).toMatchObject({ stop: true, stop_type: 'limit', tokens_predicted: 12 });
  });

  it('tell which word stopped them', async () => {
    const whole = await ask(server.gateway, '/completion', { prompt: 'Once upon', n_predict: 12, temperature: 0 });
    const word = (whole.json.content as string).trim().split(' ')[2] as string;
    const body = { prompt: 'Once upon', n_predict: 12, temperature: 0, stop: [word] };
    const { json } = await ask(server.gateway, '/completion', body);
    expect(json).toMatchObject({ stop_type: 'word', stopping_word: word });
    expect(json.content).not.toContain(word);
  });

  it('turn text into tokens and back', async () => {
    const content = 'Once upon a time, in a forest';
    const { tokens } = (await ask(server.gateway, '/tokenize', { content })).json;
    // By llama.cpp's name and by vLLM's.
    expect((await ask(server.gateway, '/detokenize', { tokens })).json).toEqual({ content, prompt: content });
    const pieces = (await ask(server.gateway, '/tokenize', { content, with_pieces: true })).json.tokens;
    expect(pieces.map(({ piece }: { piece: string }) => piece).join('')).toBe(content);
    expect((await ask(server.gateway, '/tokenize', { content: '' })).json).toEqual({ tokens: [] });
    expect((await ask(server.gateway, '/detokenize', { tokens: [9_999_999] })).status).toBe(400);
  });

  it('render a conversation as the model gets it', async () => {
    const { prompt } = (await ask(server.gateway, '/apply-template', { messages: chat.messages })).json;
    expect(prompt).toContain('Tell me a story.');
    expect(prompt).toMatch(/assistant\n$/);
  });

  it('render the functions that a template writes', async () => {
    const file = path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'tools.jinja');
    writeFileSync(file, '{% for tool in tools or [] %}{{ tool | tojson }}{% endfor %}');
    const templated = await startTestGateway('models/demo.gguf', { httpListen: '127.0.0.1:0', chatTemplate: file });
    try {
      const parameters = { type: 'object', properties: { at: { type: 'string' } } };
      const tools = [{ type: 'function', function: { name: 'look', description: 'looks', parameters } }];
      const { json } = await ask(templated.gateway, '/apply-template', { messages: chat.messages, tools });
      expect(JSON.parse(json.prompt)).toEqual(tools[0]);
      const wrong = await ask(templated.gateway, '/apply-template', {
        messages: chat.messages,
        tools: [{ function: {} }],
      });
      expect(wrong.json.error).toMatchObject({ code: 400, param: 'tools[0].function.name' });
    } finally {
      await templated.stop();
    }
  });

  it('tell errors in llama.cpp’s form, by its names', async () => {
    const { status, json } = await ask(server.gateway, '/completion', { prompt: 'x', n_predict: -3 });
    expect([status, json.error]).toEqual([400, expect.objectContaining({ code: 400, param: 'n_predict' })]);
    const samplers = await ask(server.gateway, '/completion', { prompt: 'x', lora: [{ id: 0, scale: 1 }] });
    expect(samplers.json.error).toMatchObject({ type: 'not_supported_error', param: 'lora' });
  });
});

it('goes on with a stream whose executor is killed, to the same text', async () => {
  const slow = await startTestGateway('models/demo.gguf', { httpListen: '127.0.0.1:0', stepDelayMs: 10 });
  try {
    const body = { ...chat, max_tokens: 60, ignore_eos: true };
    const undisturbed = (await ask(slow.gateway, CHAT, body)).json.choices[0].message.content;
    const answer = await fetch(`${baseOf(slow.gateway)}${CHAT}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ...body, stream: true }),
    });
    let text = '';
    let killed = 0;
    for await (const piece of answer.body!.pipeThrough(new TextDecoderStream())) {
      text += piece;
      if (killed === 0 && eventsOf(text.slice(0, text.lastIndexOf('\n\n') + 2)).length > 8) {
        killed = slow.gateway.executorPid() as number;
        process.kill(killed, 'SIGKILL');
      }
    }
    const events = eventsOf(text).filter((event) => event !== '[DONE]');
    const told = events.map((event) => JSON.parse(event).choices[0].delta.content ?? '').join('');
    expect(killed).toBeGreaterThan(0);
    expect(slow.gateway.executorEpoch()).toBe(2);
    expect(told).toBe(undisturbed);
  } finally {
    await slow.stop();
  }
});
