import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  EmbedRequest,
  type EmbedResponse,
  GenerateRequest as EngineRequest,
} from '../../../../src/shared/generated/vllm/grpc/engine/vllm_engine.js';
import { GenerateRequest } from '../../../../src/shared/generated/vllm/inference.js';
import { startTestGateway, type TestGateway } from '../../../support/gateway.js';
import { ask } from '../../../support/http.js';
import { messagesOf, type ProtocolClients, protocolClients, refusalOf, unary } from '../../../support/protocols.js';
import { writeRandomModel } from '../../../support/random-model.js';

let server: TestGateway;
let clients: ProtocolClients;
beforeAll(async () => {
  server = await startTestGateway(writeRandomModel(), { httpListen: '127.0.0.1:0' });
  clients = protocolClients(server.address);
});
afterAll(async () => {
  clients.close();
  await server.stop();
});

const SCHEMA = '{"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"],"additionalProperties":false}';
const prompt = [1, 270, 280];

type Decoding = NonNullable<NonNullable<GenerateRequest['decoding']>['structuredOutput']>;
const inference = async (structuredOutput: Decoding) => {
  const message = GenerateRequest.fromPartial({
    prompt: { $case: 'tokenIds', value: { ids: prompt } },
    decoding: { structuredOutput },
    stopping: { maxNewTokens: 60 },
  });
  const messages = await messagesOf(clients.inference.generateStream(message));
  return messages.map(({ outputs }) => outputs?.text ?? '').join('');
};

type EngineConstraint = NonNullable<NonNullable<EngineRequest['samplingParams']>['constraint']>;
const engine = async (constraint: EngineConstraint) => {
  const message = EngineRequest.fromPartial({
    input: { $case: 'tokenized', value: { inputIds: prompt } },
    samplingParams: { constraint, maxTokens: 60, temperature: 0, skipSpecialTokens: true },
  });
  const messages = await messagesOf(clients.engine.generate(message));
  const ids = messages.flatMap(({ response }) => (response?.$case === 'complete' ? response.value.outputIds : []));
  return (await ask(server.gateway, '/detokenize', { tokens: ids.filter((id) => id > 2) })).json.content.trim();
};

describe('constraints of vLLM’s gRPC services', () => {
  it.each([
    [
      'a JSON schema',
      { $case: 'json', value: SCHEMA },
      { $case: 'jsonSchema', value: SCHEMA },
      /^\{\s*"a"\s*:\s*(true|false)\s*\}$/,
    ],
    ['an expression', { $case: 'regex', value: 'ab+c' }, { $case: 'regex', value: 'ab+c' }, /^ab*c?$/],
    [
      'a grammar',
      { $case: 'grammar', value: 'root ::= "yes" | "no"' },
      { $case: 'grammar', value: 'root ::= "yes" | "no"' },
      /^(yes|no)$/,
    ],
    [
      'texts',
      { $case: 'choice', value: { choices: ['fox', 'sea'] } },
      { $case: 'choice', value: { choices: ['fox', 'sea'] } },
      /^(fox|sea)$/,
    ],
    ['any object', { $case: 'jsonObject', value: true }, { $case: 'jsonObject', value: true }, /^\{/],
  ] as const)('hold the text to %s', async (_, theirs, engines, expected) => {
    const copied = structuredClone([theirs, engines]) as unknown as [Decoding, EngineConstraint];
    expect((await inference(copied[0])).trim()).toMatch(expected);
    expect(await engine(copied[1])).toMatch(expected);
  });

  it('are rejected by their own names', async () => {
    const broken = { $case: 'json', value: '{' } as const;
    expect(await refusalOf(inference(broken))).toMatchObject({ reason: 'CONSTRAINT_INVALID', field: 'decoding.json' });
    expect(await refusalOf(engine({ $case: 'regex', value: '(' }))).toMatchObject({ field: 'sampling_params.regex' });
  });
});

describe('candidates of vllm.Inference', () => {
  it('are the likeliest other tokens', async () => {
    const message = GenerateRequest.fromPartial({
      prompt: { $case: 'tokenIds', value: { ids: prompt } },
      stopping: { maxNewTokens: 4, ignoreEos: true },
      response: { outputTokenIds: true, outputCandidates: { select: { $case: 'topN', value: 3 } } },
    });
    const messages = await messagesOf(clients.inference.generateStream(message));
    const outputs = messages.flatMap(({ outputs: one }) => (one && one.tokenIds.length > 0 ? [one] : []));
    for (const { tokenIds, candidateTokens } of outputs) {
      for (const [i, { tokens }] of candidateTokens.entries()) {
        // The sampled one is the likeliest.
        expect(tokens.map(({ rank }) => rank)).toEqual([2, 3]);
        expect(tokens.map(({ id }) => id)).not.toContain(tokenIds[i]);
      }
    }
    expect(outputs.flatMap(({ candidateTokens }) => candidateTokens)).toHaveLength(4);
  });
});

describe('Embed of VllmEngine', () => {
  it('has the embedding of the public API', async () => {
    const theirs = await unary<EmbedRequest, EmbedResponse>(
      clients.engine.embed.bind(clients.engine),
      EmbedRequest.fromPartial({ tokenized: { inputIds: prompt } }),
    );
    const { json } = await ask(server.gateway, '/v1/embeddings', { input: prompt });
    expect(theirs.embedding.map((value) => Number(value.toPrecision(9)))).toEqual(json.data[0].embedding);
    expect([theirs.promptTokens, theirs.embeddingDim]).toEqual([3, 64]);
    const empty = unary(clients.engine.embed.bind(clients.engine), EmbedRequest.fromPartial({}));
    expect(await refusalOf(empty)).toMatchObject({ reason: 'INVALID_FIELD' });
  });
});
