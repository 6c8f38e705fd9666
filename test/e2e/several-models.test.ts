import { mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { credentials, type ServiceError, status } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  HealthClient,
  type HealthListResponse,
  HealthCheckResponse_ServingStatus as Status,
} from '../../src/shared/generated/grpc/health/v1/health.js';
import type {
  DetokenizeResponse,
  GenerateRequest,
  GenerateResponse,
  GetModelResponse,
  ListModelsResponse,
  TokenizeRequest,
  TokenizeResponse,
} from '../../src/shared/generated/rocmforge/v1/inference.js';
import { GenerateRequest as EngineRequest } from '../../src/shared/generated/vllm/grpc/engine/vllm_engine.js';
import { GenerateRequest as VllmRequest } from '../../src/shared/generated/vllm/inference.js';
import { generate, request, startTestGateway, type TestGateway } from '../support/gateway.js';
import { ask, eventsOf } from '../support/http.js';
import {
  engineGenerated,
  messagesOf,
  type ProtocolClients,
  protocolClients,
  unary,
  vllmGenerated,
} from '../support/protocols.js';
import { writeRandomModel } from '../support/random-model.js';

const PROMPT = 'Once upon a time';
const TEMPLATE = '{{ messages[0].content }}';
const messages = [{ role: 'user', content: PROMPT }];
const TOKENS = 12;
/** Bytes that make a request too large to be decoded where it arrives. */
const LARGE = 20_000;

let server: TestGateway;
let others: ProtocolClients;
beforeAll(async () => {
  const chatTemplate = path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'template');
  writeFileSync(chatTemplate, TEMPLATE);
  server = await startTestGateway('models/demo.gguf', {
    ...{ modelName: 'chat', modelAlias: ['gpt'], chatTemplate },
    moreModels: [
      { model: writeRandomModel({ contextLength: 256 }), modelName: 'small', modelAlias: ['tiny', 'little'] },
    ],
    ...{ httpListen: '127.0.0.1:0', httpSlots: true, metricsListen: '127.0.0.1:0' },
  });
  others = protocolClients(server.address);
});
afterAll(async () => {
  others.close();
  await server.stop();
});

const sampling = { temperature: 0 };
const message = (model: string) =>
  request({ text: PROMPT, model, sampling, stop: { maxTokens: TOKENS, ignoreEos: true } });
/** The same, by a conversation whose template's variables make it large. */
const largeMessage = (model: string) => ({
  ...message(model),
  input: {
    $case: 'chat' as const,
    value: {
      messages: [{ role: 'user', content: PROMPT, name: '', toolCalls: [], toolCallId: '', reasoning: '' }],
      tools: [],
      addGenerationPrompt: true,
      templateVariablesJson: JSON.stringify({ unused: 'x'.repeat(LARGE) }),
      continueFinalMessage: false,
    },
  },
});

/** Response of a JSON server; an error as it is thrown. */
async function posted(route: string, body: object, padding = 0): Promise<string> {
  const answer = await ask(server.gateway, route, JSON.stringify(body) + ' '.repeat(padding));
  if (answer.status !== 200) throw Object.assign(new Error(answer.text), { code: answer.status });
  return answer.text;
}
const json = async (route: string, body: object, padding = 0) => JSON.parse(await posted(route, body, padding));
const named = (model: string) => (model === '' ? {} : { model });
const settings = { temperature: 0, max_tokens: TOKENS, ignore_eos: true };

/** Every way to ask for a generation by a model's name: what it answers, as text. */
const GENERATIONS: Readonly<Record<string, (model: string) => Promise<string>>> = {
  GenerateStream: async (model) => (await generate(server.client, message(model))).text,
  'GenerateStream, large': async (model) => (await generate(server.client, largeMessage(model))).text,
  Generate: async (model) => {
    const answer: GenerateResponse = await unary(
      (wanted: GenerateRequest, done) => server.client.generate(wanted, done),
      message(model),
    );
    expect(answer.model).toBe(model === 'tiny' ? 'small' : model || 'chat');
    return answer.completions[0]?.text ?? '';
  },
  'Generate over Connect': async (model) => {
    const body = { model, text: { text: PROMPT }, sampling, stop: { maxTokens: TOKENS, ignoreEos: true } };
    return (await json('/rocmforge.v1.InferenceService/Generate', body)).completions[0].text;
  },
  'vllm.Inference': async (model) => {
    const call = VllmRequest.fromPartial({
      ...{ model, prompt: { $case: 'text', value: PROMPT }, temperature: 0 },
      stopping: { maxNewTokens: TOKENS, ignoreEos: true },
      response: { outputTokenIds: true },
    });
    return vllmGenerated(await messagesOf(others.inference.generateStream(call))).text;
  },
  '/v1/chat/completions': async (model) =>
    (await json('/v1/chat/completions', { messages, ...named(model), ...settings })).choices[0].message.content,
  '/v1/chat/completions, large': async (model) =>
    (await json('/v1/chat/completions', { messages, ...named(model), ...settings }, LARGE)).choices[0].message.content,
  '/v1/completions, streamed': async (model) => {
    const answer = await posted('/v1/completions', { prompt: PROMPT, stream: true, ...named(model), ...settings });
    const events = eventsOf(answer).filter((event) => event !== '[DONE]');
    return events.map((event) => JSON.parse(event).choices[0]?.text ?? '').join('');
  },
  '/v1/messages': async (model) => {
    const answer = await json('/v1/messages', { messages, ...named(model), ...settings });
    expect(answer.model).toBe(model === 'tiny' ? 'small' : model || 'chat');
    return answer.content[0].text;
  },
  '/completion': async (model) =>
    (
      await json('/completion', {
        prompt: PROMPT,
        ...named(model),
        temperature: 0,
        n_predict: TOKENS,
        ignore_eos: true,
      })
    ).content,
};

const textInput = (text: string) => ({
  $case: 'text' as const,
  value: { text, parseSpecial: false, addSpecial: undefined },
});
const tokenized = async (model: string, text: string): Promise<readonly number[]> => {
  const ask = (wanted: TokenizeRequest, done: (error: ServiceError | null, answer: TokenizeResponse) => void) =>
    server.client.tokenize(wanted, done);
  return (await unary(ask, { model, input: textInput(text) })).tokenIds;
};
const IDS = Array.from({ length: 40 }, (_, i) => 200 + i);

/** And to ask about texts. */
const ABOUT_TEXTS: Readonly<Record<string, (model: string) => Promise<unknown>>> = {
  Tokenize: (model) => tokenized(model, PROMPT),
  'Tokenize, large': (model) => tokenized(model, `${PROMPT} `.repeat(LARGE / PROMPT.length)),
  Detokenize: async (model) => {
    const wanted = { model, tokenIds: IDS, includeSpecialTokens: true };
    const { text } = await unary<typeof wanted, DetokenizeResponse>(
      (message, done) => server.client.detokenize(message, done),
      wanted,
    );
    return text;
  },
  GetModel: async (model) => {
    const { model: told } = await unary<{ model: string }, GetModelResponse>(
      (message, done) => server.client.getModel(message, done),
      { model },
    );
    return told?.contextLength;
  },
  '/tokenize': async (model) => (await json('/tokenize', { content: PROMPT, ...named(model) })).tokens,
  '/tokenize, large': async (model) => (await json('/tokenize', { content: PROMPT, ...named(model) }, LARGE)).tokens,
  '/detokenize': async (model) => (await json('/detokenize', { tokens: IDS, ...named(model) })).content,
  '/props': async (model) => {
    const answer = await ask(server.gateway, `/props${model === '' ? '' : `?model=${model}`}`);
    if (answer.status !== 200) throw Object.assign(new Error(answer.text), { code: answer.status });
    return answer.json.default_generation_settings.n_ctx;
  },
  '/slots': async (model) => {
    const answer = await ask(server.gateway, `/slots${model === '' ? '' : `?model=${model}`}`);
    if (answer.status !== 200) throw Object.assign(new Error(answer.text), { code: answer.status });
    return answer.json[0].n_ctx;
  },
};

/** JSON servers respond with HTTP's status. */
const isNotFound = ({ code }: ServiceError | { code: number }) => code === status.NOT_FOUND || code === 404;

describe('two models of one gateway', () => {
  let texts: { readonly chat: string; readonly small: string };
  beforeAll(async () => {
    const [chat, small] = await Promise.all(['chat', 'small'].map((model) => generate(server.client, message(model))));
    texts = { chat: chat?.text ?? '', small: small?.text ?? '' };
  });

  it('answer differently', () => {
    expect(texts.chat).not.toBe('');
    expect(texts.small).not.toBe('');
    expect(texts.small).not.toBe(texts.chat);
  });

  it.each(Object.entries(GENERATIONS))(
    'are chosen by name through %s, and the first where none is named',
    async (_, ask) => {
      const [chat, small, alias, first] = await Promise.all(['chat', 'small', 'tiny', ''].map(ask));
      expect({ chat, small, alias, first }).toEqual({ ...texts, alias: texts.small, first: texts.chat });
    },
  );

  it.each(Object.entries(ABOUT_TEXTS))('are chosen by name through %s', async (_, ask) => {
    const [chat, small, alias, first] = await Promise.all(['chat', 'small', 'little', ''].map(ask));
    expect(small).not.toEqual(chat);
    expect({ alias, first }).toEqual({ alias: small, first: chat });
  });

  it.each(Object.entries({ ...GENERATIONS, ...ABOUT_TEXTS }))(
    'refuse through %s a name that is neither’s, and say which there are',
    async (_, ask) => {
      const error: ServiceError = await ask('medium').then(
        () => {
          throw new Error('it was served');
        },
        (thrown: ServiceError) => thrown,
      );
      expect(isNotFound(error)).toBe(true);
      expect(error.message).toMatch(/there is no model \\*"medium\\*" here, only \\*"chat\\*", \\*"small\\*"/);
    },
  );

  it('are told of by every list', async () => {
    const { models } = await unary<object, ListModelsResponse>((_, done) => server.client.listModels({}, done), {});
    expect(models.map(({ name, ready, loaded }) => ({ name, ready, loaded }))).toEqual([
      { name: 'chat', ready: true, loaded: true },
      { name: 'small', ready: true, loaded: true },
    ]);
    const { data } = (await ask(server.gateway, '/v1/models')).json;
    expect(data).toMatchObject([
      { id: 'chat', aliases: ['chat', 'gpt'], status: { value: 'loaded' } },
      { id: 'small', aliases: ['small', 'tiny', 'little'], max_model_len: 256, status: { value: 'loaded' } },
    ]);
    expect((await ask(server.gateway, '/v1/models/tiny')).json.id).toBe('small');
    expect((await ask(server.gateway, '/v1/models/medium')).status).toBe(404);
    const health = new HealthClient(server.address, credentials.createInsecure());
    try {
      const { statuses } = await unary<object, HealthListResponse>((_, done) => health.list({}, done), {});
      for (const name of ['', 'chat', 'small']) {
        const service = name === '' ? '' : `rocmforge.v1.InferenceService/${name}`;
        expect(statuses[service]?.status, name).toBe(Status.SERVING);
      }
    } finally {
      health.close();
    }
  });

  it('are told apart by metrics', async () => {
    const metrics = await server.gateway.metrics.registry.metrics();
    for (const name of ['chat', 'small']) {
      expect(metrics).toContain(`rocmforge_executor_up{model_name="${name}"} 1\n`);
      expect(metrics).toMatch(new RegExp(`rocmforge_generation_tokens_total\\{model_name="${name}"\\} [1-9]`));
      expect(metrics).toMatch(new RegExp(`rocmforge_cache_config_info\\{model_name="${name}",block_size="16"`));
    }
  });

  it('share SMG’s protocol, which names none: it is the first’s', async () => {
    const call = EngineRequest.fromPartial({
      ...{ requestId: 'r', input: { $case: 'text', value: PROMPT }, stream: true },
      samplingParams: { temperature: 0, maxTokens: TOKENS, ignoreEos: true },
    });
    const { tokenIds } = await generate(server.client, message('chat'));
    expect(engineGenerated(await messagesOf(others.engine.generate(call))).tokenIds).toEqual(tokenIds);
  });
});
