import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type DeepPartial,
  GenerateRequest,
  type GetLoadsRequest,
  type GetLoadsResponse,
  type GetModelInfoResponse,
  type GetServerInfoResponse,
  type HealthCheckResponse,
} from '../../../../src/shared/generated/vllm/grpc/engine/vllm_engine.js';
import { packageVersion } from '../../../../src/shared/package.js';
import { generate, request, startTestGateway, type TestGateway } from '../../../support/gateway.js';
import {
  engineGenerated,
  messagesOf,
  type ProtocolClients,
  protocolClients,
  refusalOf,
  unary,
} from '../../../support/protocols.js';
import { writeRandomModel } from '../../../support/random-model.js';

let server: TestGateway;
let clients: ProtocolClients;
beforeAll(async () => {
  server = await startTestGateway(writeRandomModel({ contextLength: 128 }));
  clients = protocolClients(server.address);
});
afterAll(async () => {
  clients.close();
  await server.stop();
});

const theirs = (parts: DeepPartial<GenerateRequest>) => GenerateRequest.fromPartial(parts);
const run = async (message: GenerateRequest) => engineGenerated(await messagesOf(clients.engine.generate(message)));

const PROMPT = [1, 270, 280];
/** As SMG's router sends one (crates/grpc_client/src/vllm_engine.rs). */
const SENT = theirs({
  requestId: 'chatcmpl-1',
  input: { $case: 'tokenized', value: { originalText: 'the fox', inputIds: PROMPT } },
  samplingParams: {
    temperature: 0.8,
    topP: 0.9,
    topK: 30,
    repetitionPenalty: 1.1,
    maxTokens: 24,
    skipSpecialTokens: true,
    spacesBetweenSpecialTokens: true,
    ignoreEos: true,
    n: 1,
    seed: 99,
  },
  stream: true,
});
const OURS = request({
  tokens: PROMPT,
  sampling: { temperature: 0.8, topP: Math.fround(0.9), topK: 30, repetitionPenalty: Math.fround(1.1), seed: 99n },
  stop: { maxTokens: 24, ignoreEos: true },
});

describe('VllmEngine.Generate', () => {
  it('streams the ids that our own service has for the same request, each chunk those since the last', async () => {
    const ours = await generate(server.client, OURS);
    const { chunks, completes, tokenIds } = await run(SENT);
    expect(ours.tokenIds).toHaveLength(24);
    expect(tokenIds).toEqual(ours.tokenIds);
    for (const chunk of chunks) {
      expect(chunk).toMatchObject({ index: 0, promptTokens: 3, completionTokens: chunk.tokenIds.length });
    }
    expect(completes).toMatchObject([
      { index: 0, outputIds: ours.tokenIds, finishReason: 'length', promptTokens: 3, completionTokens: 24 },
    ]);
    expect(completes[0]?.matchedStop).toBeUndefined();
  });

  it('sends no chunks where the request does not stream, and one complete a completion', async () => {
    const samplingParams = { ...SENT.samplingParams!, n: 3 };
    const ours = await generate(server.client, { ...OURS, n: 3 });
    const { chunks, completes } = await run({ ...SENT, samplingParams, stream: false });
    expect(chunks).toEqual([]);
    expect(completes).toHaveLength(3);
    for (const { index, outputIds } of completes) expect(outputIds).toEqual(ours.completions[index]?.tokenIds);
  });

  it('streams several completions by index, each with its complete', async () => {
    const samplingParams = { ...SENT.samplingParams!, n: 3 };
    const { chunks, completes } = await run({ ...SENT, samplingParams });
    expect(completes.map(({ index }) => index).sort()).toEqual([0, 1, 2]);
    for (const { index, outputIds } of completes) {
      const ids = chunks.filter((chunk) => chunk.index === index).flatMap(({ tokenIds }) => tokenIds);
      expect(ids).toEqual(outputIds);
    }
  });

  it('takes a text', async () => {
    const input = { $case: 'text' as const, value: 'the fox' };
    const ours = await generate(server.client, {
      ...OURS,
      input: { $case: 'text', value: { text: 'the fox', parseSpecial: true, addSpecial: undefined } },
    });
    expect((await run({ ...SENT, input })).tokenIds).toEqual(ours.tokenIds);
  });

  it('names the token or the string that ended it, but not what ends every text of the model', async () => {
    const free = theirs({ ...SENT, samplingParams: { seed: 99, maxTokens: 24, ignoreEos: true } });
    const named = (await run(free)).tokenIds[4] as number;
    const byToken = await run(theirs({ ...free, samplingParams: { ...free.samplingParams, stopTokenIds: [named] } }));
    expect(byToken.completes[0]).toMatchObject({
      finishReason: 'stop',
      matchedStop: { $case: 'matchedTokenId', value: named },
    });
    const biased = (id: number, more: object) =>
      run(theirs({ ...free, samplingParams: { maxTokens: 4, logitBias: { [id]: 1000 }, ...more } }));
    const byModel = await biased(2, {});
    expect(byModel.completes[0]).toMatchObject({ finishReason: 'stop', outputIds: [2], matchedStop: undefined });
    const byString = await biased(262, { stop: ['sea'] });
    expect(byString.completes[0]).toMatchObject({
      finishReason: 'stop',
      matchedStop: { $case: 'matchedStopStr', value: 'sea' },
    });
  });

  it('tells the log probabilities that our own service tells, of chunks or of the complete', async () => {
    const ours = await generate(server.client, {
      ...OURS,
      output: { logprobs: 2, promptLogprobs: 2, echo: false, includeSpecialTokens: false, promptText: false },
    });
    const samplingParams = { ...SENT.samplingParams!, logprobs: 2, promptLogprobs: 2 };
    const expected = {
      tokenLogprobs: ours.logprobs.map(({ logprob }) => logprob),
      tokenIds: ours.logprobs.map(({ tokenId }) => tokenId),
      tops: ours.logprobs.map(({ top }) => top.map(({ tokenId }) => tokenId)),
    };
    const { chunks, completes } = await run({ ...SENT, samplingParams });
    const streamed = chunks.flatMap(({ outputLogprobs }) => (outputLogprobs === undefined ? [] : [outputLogprobs]));
    expect({
      tokenLogprobs: streamed.flatMap(({ tokenLogprobs }) => tokenLogprobs),
      tokenIds: streamed.flatMap(({ tokenIds }) => tokenIds),
      tops: streamed.flatMap(({ topLogprobs }) => topLogprobs.map(({ tokenIds }) => tokenIds)),
    }).toEqual(expected);
    expect(completes[0]?.outputLogprobs).toBeUndefined();
    const prompts = chunks.flatMap(({ inputLogprobs }) => (inputLogprobs === undefined ? [] : [inputLogprobs]));
    expect(prompts).toHaveLength(1);
    expect(prompts[0]?.tokenIds).toEqual(PROMPT);
    expect(prompts[0]?.tokenLogprobs.map(({ value }) => value)).toEqual(
      ours.promptLogprobs.map(({ logprob }) => logprob),
    );

    const [whole] = (await run({ ...SENT, samplingParams, stream: false })).completes;
    expect(whole?.outputLogprobs?.tokenLogprobs).toEqual(expected.tokenLogprobs);
    expect(whole?.outputLogprobs?.topLogprobs.map(({ tokenIds }) => tokenIds)).toEqual(expected.tops);
    expect(whole?.inputLogprobs?.tokenIds).toEqual(PROMPT);
  });

  it('tells no alternatives where only the tokens’ own are asked for', async () => {
    const samplingParams = { ...SENT.samplingParams!, logprobs: 0 };
    const [whole] = (await run({ ...SENT, samplingParams, stream: false })).completes;
    expect(whole?.outputLogprobs?.tokenLogprobs).toHaveLength(24);
    expect(whole?.outputLogprobs?.topLogprobs).toEqual([]);
  });
});

describe('the other methods of VllmEngine', () => {
  it('tell that it is healthy, and what it serves', async () => {
    const { engine } = clients;
    expect(await unary<object, HealthCheckResponse>(engine.healthCheck.bind(engine), {})).toMatchObject({
      healthy: true,
    });
    expect(await unary<object, GetModelInfoResponse>(engine.getModelInfo.bind(engine), {})).toMatchObject({
      modelPath: 'random',
      servedModelName: 'random',
      isGeneration: true,
      maxContextLength: 128,
      maxReqInputLen: 127,
      modelType: 'llama',
      eosTokenIds: [2],
      bosTokenId: 1,
    });
    expect(await unary<object, GetServerInfoResponse>(engine.getServerInfo.bind(engine), {})).toMatchObject({
      activeRequests: 0,
      serverType: 'vllm-grpc',
      dataParallelSize: 1,
    });
  });

  it('tell the load of the one rank that there is', async () => {
    const { engine } = clients;
    const loads = (parts: Partial<GetLoadsRequest>) =>
      unary<GetLoadsRequest, GetLoadsResponse>(engine.getLoads.bind(engine), { include: [], ...parts });
    const { kvBlocks } = server.gateway.replica.counts;
    expect(await loads({ include: ['core'] })).toMatchObject({
      version: packageVersion,
      dpRankCount: 1,
      loads: [{ dpRank: 0, numTotalReqs: 0, maxTotalNumTokens: 16 * kvBlocks, maxRunningRequests: 16, tokenUsage: 0 }],
    });
    expect(await refusalOf(loads({ dpRank: 1 }))).toMatchObject({ reason: 'INVALID_FIELD', field: 'dp_rank' });
    expect(await refusalOf(loads({ include: ['memory'] }))).toMatchObject({
      reason: 'INVALID_FIELD',
      field: 'include',
    });
  });
});
