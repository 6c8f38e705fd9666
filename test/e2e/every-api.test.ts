import { mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { DescService } from '@bufbuild/protobuf';
import { createClient } from '@connectrpc/connect';
import { createConnectTransport, createGrpcWebTransport } from '@connectrpc/connect-node';
import { expect, it } from 'vitest';
import { GenerateRequest as EngineRequest } from '../../src/shared/generated/vllm/grpc/engine/vllm_engine.js';
import { GenerateRequest as VllmRequest } from '../../src/shared/generated/vllm/inference.js';
import { generate, request, startTestGateway, type TestGateway } from '../support/gateway.js';
import { API_SERVICE, apiRegistry, baseOf, eventsOf } from '../support/http.js';
import {
  engineGenerated,
  messagesOf,
  type ProtocolClients,
  protocolClients,
  vllmGenerated,
} from '../support/protocols.js';

const MODEL = 'models/demo.gguf';
const PROMPT = 'Once upon a time';
/** A conversation is its last turn's text, as the prompt of every other server. */
const TEMPLATE = '{{ messages[0].content }}';
const messages = [{ role: 'user', content: PROMPT }];
const TOKENS = 48;

/** A server's account of a generation; ids if its protocol has them. */
interface Told {
  readonly text?: string;
  readonly ids?: readonly number[];
}

async function posted(server: TestGateway, path: string, body: object): Promise<string> {
  const answer = await fetch(`${baseOf(server.gateway)}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  expect(answer.status).toBe(200);
  return answer.text();
}

const service = apiRegistry().getService(API_SERVICE) as DescService;

/** A stream by Connect's client. */
async function connected(server: TestGateway, open: typeof createConnectTransport): Promise<Told> {
  const transport = open({ baseUrl: baseOf(server.gateway), httpVersion: '1.1' });
  const client = createClient(service, transport) as unknown as {
    // biome-ignore lint/suspicious/noExplicitAny: messages of a service that is known at run time alone
    generateStream(message: object): AsyncIterable<any>;
  };
  const message = {
    input: { case: 'text', value: { text: PROMPT } },
    sampling: { temperature: 0.7, seed: 5n },
    stop: { maxTokens: TOKENS, ignoreEos: true },
  };
  const ids: number[] = [];
  let text = '';
  for await (const { event } of client.generateStream(message)) {
    if (event.case !== 'chunk') continue;
    ids.push(...event.value.tokenIds);
    text += event.value.text;
  }
  return { text, ids };
}

/** The same request, streamed through each API: temperature 0.7 and a seed. */
const APIS: Readonly<Record<string, (server: TestGateway, clients: ProtocolClients) => Promise<Told>>> = {
  'rocmforge.v1': async ({ client }) => {
    const sampling = { temperature: 0.7, seed: 5n };
    const { text, tokenIds: ids } = await generate(
      client,
      request({ text: PROMPT, sampling, stop: { maxTokens: TOKENS, ignoreEos: true } }),
    );
    return { text, ids };
  },
  'vllm.Inference': async (_, { inference }) => {
    const message = VllmRequest.fromPartial({
      prompt: { $case: 'text', value: PROMPT },
      temperature: 0.7,
      sampling: { seed: 5n },
      stopping: { maxNewTokens: TOKENS, ignoreEos: true },
      response: { outputTokenIds: true },
    });
    const { text, tokenIds: ids } = vllmGenerated(await messagesOf(inference.generateStream(message)));
    return { text, ids };
  },
  'vllm.grpc.engine': async (_, { engine }) => {
    const message = EngineRequest.fromPartial({
      requestId: 'every-api',
      input: { $case: 'text', value: PROMPT },
      samplingParams: { temperature: 0.7, seed: 5, maxTokens: TOKENS, ignoreEos: true },
      stream: true,
    });
    const { tokenIds: ids } = engineGenerated(await messagesOf(engine.generate(message)));
    return { ids };
  },
  'OpenAI’s completions': async (server) => {
    const body = { prompt: PROMPT, temperature: 0.7, seed: 5, max_tokens: TOKENS, ignore_eos: true, stream: true };
    const events = eventsOf(await posted(server, '/v1/completions', body)).filter((event) => event !== '[DONE]');
    return { text: events.map((event) => JSON.parse(event).choices[0].text).join('') };
  },
  'OpenAI’s chat': async (server) => {
    const body = { messages, temperature: 0.7, seed: 5, max_tokens: TOKENS, ignore_eos: true, stream: true };
    const answer = await posted(server, '/v1/chat/completions', body);
    const events = eventsOf(answer).filter((event) => event !== '[DONE]');
    return { text: events.map((event) => JSON.parse(event).choices[0].delta.content ?? '').join('') };
  },
  'Anthropic’s messages': async (server) => {
    const body = { messages, temperature: 0.7, seed: 5, max_tokens: TOKENS, ignore_eos: true, stream: true };
    const answer = await posted(server, '/v1/messages', body);
    const events = [...answer.matchAll(/^data: (.*)$/gm)].map(([, event]) => JSON.parse(event as string));
    return { text: events.map(({ delta }) => delta?.text ?? '').join('') };
  },
  Connect: (server) => connected(server, createConnectTransport),
  'gRPC-Web': (server) => connected(server, createGrpcWebTransport),
  'llama.cpp’s completion': async (server) => {
    const body = { prompt: PROMPT, temperature: 0.7, seed: 5, n_predict: TOKENS, ignore_eos: true, stream: true };
    const all = { ...body, top_k: 0, top_p: 1, min_p: 0 };
    const events = eventsOf(await posted(server, '/completion', all)).map((event) => JSON.parse(event));
    return {
      text: events.map(({ content }) => content).join(''),
      ids: events.flatMap(({ tokens }) => tokens),
    };
  },
};

async function generatedTokens({ gateway }: TestGateway): Promise<number> {
  const metric = await gateway.metrics.registry.getSingleMetricAsString('rocmforge_generation_tokens_total');
  return Number(/ (\d+)$/m.exec(metric)?.[1] ?? 0);
}

it('one request has the same ids and the same text through every api, and when its executor is killed', async () => {
  const chatTemplate = path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'template.jinja');
  writeFileSync(chatTemplate, TEMPLATE);
  const server = await startTestGateway(MODEL, { httpListen: '127.0.0.1:0', stepDelayMs: 8, chatTemplate });
  const clients = protocolClients(server.address);
  try {
    const expected = (await APIS['rocmforge.v1']!(server, clients)) as Required<Told>;
    expect(expected.ids).toHaveLength(TOKENS);
    for (const [name, through] of Object.entries(APIS)) {
      for (const isKilled of [false, true]) {
        const before = server.gateway.executorEpoch();
        const running = through(server, clients);
        if (isKilled) {
          const emitted = await generatedTokens(server);
          await expect.poll(() => generatedTokens(server), { interval: 1 }).toBeGreaterThan(emitted + TOKENS / 4);
          process.kill(server.gateway.executorPid() as number, 'SIGKILL');
        }
        const { text = expected.text, ids = expected.ids } = await running;
        expect({ name, text, ids }).toEqual({ name, text: expected.text, ids: expected.ids });
        if (isKilled) expect(server.gateway.executorEpoch()).toBeGreaterThan(before);
      }
    }
  } finally {
    clients.close();
    await server.stop();
  }
});
