import { Client, credentials, type ServiceError, status } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  ChatInput,
  type DeepPartial,
  GenerateStreamRequest,
  InferenceServiceService,
} from '../../src/shared/generated/rocmforge/v1/inference.js';
import { errorInfo } from '../../src/shared/grpc/status.js';
import { generate, request, startTestGateway, type TestGateway } from '../support/gateway.js';
import { writeRandomModel } from '../support/random-model.js';

describe('a bad request', () => {
  let server: TestGateway;
  beforeAll(async () => {
    server = await startTestGateway(writeRandomModel({ contextLength: 64 }));
  });
  afterAll(() => server?.stop());

  async function refusal(message: GenerateStreamRequest) {
    const error = await generate(server.client, message).then(
      () => undefined,
      (thrown: ServiceError) => thrown,
    );
    if (error === undefined) return 'accepted';
    const info = errorInfo(error);
    return { code: status[error.code], reason: info?.reason, field: info?.metadata.field };
  }
  const invalid = (field: string) => ({ code: 'INVALID_ARGUMENT', reason: 'INVALID_FIELD', field });
  const text = 'the fox';
  const _withTools = (parts: DeepPartial<ChatInput>) => {
    const value = ChatInput.fromPartial({
      messages: [{ role: 'user', content: text }],
      tools: [{ name: 'f' }],
      ...parts,
    });
    return request({ input: { $case: 'chat', value } });
  };

  it.each([
    ['no input', { ...request({ text }), input: undefined }, invalid('input')],
    [
      'empty text where no BOS is put in front',
      request({ input: { $case: 'text', value: { text: '', parseSpecial: false, addSpecial: false } } }),
      invalid('text.text'),
    ],
    ['no token ids', request({ tokens: [] }), invalid('tokens')],
    ['a negative temperature', request({ text, sampling: { temperature: -1 } }), invalid('sampling.temperature')],
    ['a temperature of NaN', request({ text, sampling: { temperature: Number.NaN } }), invalid('sampling.temperature')],
    ['top_p 0', request({ text, sampling: { topP: 0 } }), invalid('sampling.top_p')],
    ['top_p 2', request({ text, sampling: { topP: 2 } }), invalid('sampling.top_p')],
    ['min_p 1.5', request({ text, sampling: { minP: 1.5 } }), invalid('sampling.min_p')],
    ['typical_p 0', request({ text, sampling: { typicalP: 0 } }), invalid('sampling.typical_p')],
    ['typical_p 1.5', request({ text, sampling: { typicalP: 1.5 } }), invalid('sampling.typical_p')],
    [
      'min_tokens above max_tokens',
      request({ text, stop: { minTokens: 9, maxTokens: 5 } }),
      invalid('stop.min_tokens'),
    ],
    [
      'a bias for a token that does not exist',
      request({ text, sampling: { logitBias: { 4000: 1 } } }),
      invalid('sampling.logit_bias'),
    ],
    [
      'a repetition penalty of 0',
      request({ text, sampling: { repetitionPenalty: 0 } }),
      invalid('sampling.repetition_penalty'),
    ],
    ['an empty stop string', request({ text, stop: { strings: [''] } }), invalid('stop.strings')],
    ['n 0', request({ text, n: 0 }), invalid('n')],
    [
      'a prompt longer than the context',
      request({ text: 'the fox ran '.repeat(50) }),
      { code: 'INVALID_ARGUMENT', reason: 'PROMPT_TOO_LONG', field: 'text' },
    ],
    [
      'a token id out of range',
      request({ tokens: [1, 4000] }),
      { code: 'INVALID_ARGUMENT', reason: 'TOKEN_OUT_OF_RANGE', field: 'tokens.ids' },
    ],
    [
      'an unknown model',
      request({ text, model: 'other' }),
      { code: 'NOT_FOUND', reason: 'MODEL_NOT_FOUND', field: 'model' },
    ],
    [
      'chat with a model that has no template',
      request({
        input: {
          $case: 'chat',
          value: {
            messages: [{ role: 'user', content: 'hi', name: '', toolCalls: [], toolCallId: '', reasoning: '' }],
            tools: [],
            addGenerationPrompt: undefined,
            templateVariablesJson: '',
            continueFinalMessage: false,
          },
        },
      }),
      { code: 'FAILED_PRECONDITION', reason: 'CHAT_TEMPLATE_MISSING', field: undefined },
    ],
  ])('with %s is refused, naming the field', async (_what, message, expected) => {
    expect(await refusal(message)).toEqual(expected);
  });

  /** Sends bytes as they are, past any encoder of ours. */
  function sendRaw(bytes: Buffer): Promise<ServiceError> {
    const client = new Client(server.address, credentials.createInsecure(), { 'grpc.max_send_message_length': -1 });
    const { path, responseDeserialize } = InferenceServiceService.generateStream;
    return new Promise((resolve) => {
      const call = client.makeServerStreamRequest(path, (value: Buffer) => value, responseDeserialize, bytes);
      call.on('data', () => undefined);
      call.on('error', (error: ServiceError) => {
        client.close();
        resolve(error);
      });
    });
  }

  it('of 100 MB is refused as too large', async () => {
    expect((await sendRaw(Buffer.alloc(100 << 20))).code).toBe(status.RESOURCE_EXHAUSTED);
  });

  it('with invalid UTF-8 in a string is refused', async () => {
    const good = Buffer.from(GenerateStreamRequest.encode(request({ text: 'XY' })).finish());
    good.set([0xc3, 0x28], good.indexOf('XY'));
    const error = await sendRaw(good);
    expect(status[error.code]).toBe('INVALID_ARGUMENT');
    expect(errorInfo(error)?.reason).toBe('MALFORMED_MESSAGE');
  });

  it('with empty text where BOS is put in front is none: the model continues its BOS', async () => {
    const { complete } = await generate(server.client, request({ text: '', stop: { maxTokens: 2 } }));
    expect(complete?.usage?.promptTokens).toBe(1);
  });

  it('leaves the service working', async () => {
    const answer = await generate(server.client, request({ text, stop: { maxTokens: 3, ignoreEos: true } }));
    expect(answer.tokenIds).toHaveLength(3);
  });
});
