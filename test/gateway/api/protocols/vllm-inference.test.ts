import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  DecodingParameters,
  type DeepPartial,
  FinishInfo_FinishReason as Finish,
  GenerateRequest,
  type GenerateResponse,
  RandomSampling,
  ResponseOptions,
  StoppingCriteria,
  TokenIds,
} from '../../../../src/shared/generated/vllm/inference.js';
import { generate, request, startTestGateway, type TestGateway } from '../../../support/gateway.js';
import {
  messagesOf,
  type ProtocolClients,
  protocolClients,
  refusalOf,
  unary,
  vllmGenerated,
} from '../../../support/protocols.js';
import { writeRandomModel } from '../../../support/random-model.js';

let server: TestGateway;
let clients: ProtocolClients;
beforeAll(async () => {
  server = await startTestGateway(writeRandomModel({ contextLength: 128 }), { maxPriority: 3 });
  clients = protocolClients(server.address);
});
afterAll(async () => {
  clients.close();
  await server.stop();
});

const theirs = (parts: DeepPartial<GenerateRequest>) => GenerateRequest.fromPartial(parts);
const stream = async (message: GenerateRequest) =>
  vllmGenerated(await messagesOf(clients.inference.generateStream(message)));
const once = (message: GenerateRequest) =>
  unary<GenerateRequest, GenerateResponse>(clients.inference.generate.bind(clients.inference), message);

const SAMPLED = theirs({
  prompt: { $case: 'tokenIds', value: { ids: [1, 270, 280] } },
  temperature: 0.9,
  sampling: RandomSampling.create({ topK: 20, topP: 0.9, seed: 77n }),
  decoding: DecodingParameters.create({ presencePenalty: 0.5, repetitionPenalty: 1.2, logitBias: { 265: 1.5 } }),
  stopping: StoppingCriteria.create({ maxNewTokens: 24, ignoreEos: true }),
  response: ResponseOptions.create({ outputTokenIds: true, promptTokenIds: true }),
});
const OURS = request({
  tokens: [1, 270, 280],
  sampling: {
    temperature: 0.9,
    topK: 20,
    topP: 0.9,
    seed: 77n,
    presencePenalty: 0.5,
    repetitionPenalty: 1.2,
    logitBias: { 265: 1.5 },
  },
  stop: { maxTokens: 24, ignoreEos: true },
});

describe('vllm.Inference', () => {
  it('streams the ids and the text that our own service has for the same request', async () => {
    const ours = await generate(server.client, OURS);
    const { prompts, tokenIds, text, numTokens, finishes } = await stream(SAMPLED);
    expect(ours.tokenIds).toHaveLength(24);
    expect({ tokenIds, text }).toEqual({ tokenIds: ours.tokenIds, text: ours.text });
    expect(numTokens).toBe(24);
    expect(prompts).toMatchObject([{ numPromptTokens: 3, tokenIds: [1, 270, 280] }]);
    expect(finishes).toMatchObject([{ index: 0, numOutputTokens: 24, finishReason: Finish.LENGTH }]);
  });

  it('tells the prompt first, and of nothing else', async () => {
    const [first, ...others] = await messagesOf(clients.inference.generateStream(SAMPLED));
    expect(first).toMatchObject({ promptInfo: { numPromptTokens: 3, tokenIds: [1, 270, 280] }, outputs: undefined });
    expect(others.every(({ promptInfo, outputs }) => promptInfo === undefined && outputs !== undefined)).toBe(true);
  });

  it('answers once with the same', async () => {
    const ours = await generate(server.client, OURS);
    const { promptInfo, outputs } = await once(SAMPLED);
    expect(promptInfo).toMatchObject({ numPromptTokens: 3, tokenIds: [1, 270, 280] });
    expect(outputs).toMatchObject({ index: 0, text: ours.text, tokenIds: ours.tokenIds, numTokens: 24 });
    expect(outputs?.finishInfo).toMatchObject({ numOutputTokens: 24, finishReason: Finish.LENGTH });
  });

  it('returns log probabilities and ranks of the prompt and of what is generated', async () => {
    const output = { includeSpecialTokens: false, echo: false, promptText: false };
    const ours = await generate(server.client, { ...OURS, output: { ...output, logprobs: 20, promptLogprobs: 20 } });
    const response = ResponseOptions.create({ promptLogprobs: true, outputLogprobs: true });
    const told = (tokens: typeof ours.logprobs) => ({
      logprobs: tokens.map(({ logprob }) => logprob ?? 0),
      ranks: tokens.map(({ rank }) => rank ?? 0),
    });
    const expected = [told(ours.promptLogprobs), told(ours.logprobs)];
    expect(expected[0]?.ranks[0]).toBe(0);
    for (const { logprob, rank = 0, top } of [...ours.promptLogprobs.slice(1), ...ours.logprobs]) {
      // No two of this model's tokens are equally likely.
      if (rank <= top.length) expect(top[rank - 1]?.logprob).toBe(logprob);
      else expect(logprob).toBeLessThan(top.at(-1)?.logprob as number);
    }
    expect(ours.logprobs.some(({ rank = 0 }) => rank > 1)).toBe(true);
    const whole = await once({ ...SAMPLED, response });
    expect([whole.promptInfo, whole.outputs]).toMatchObject(expected);
    const messages = await messagesOf(clients.inference.generateStream({ ...SAMPLED, response }));
    expect(messages[0]?.promptInfo).toMatchObject(expected[0] as object);
    const streamed = messages.flatMap(({ outputs }) => (outputs === undefined ? [] : [outputs]));
    expect(streamed.flatMap(({ logprobs }) => logprobs)).toEqual(expected[1]?.logprobs);
    expect(streamed.flatMap(({ ranks }) => ranks)).toEqual(expected[1]?.ranks);
    const [plain] = await messagesOf(clients.inference.generateStream(SAMPLED));
    expect(plain?.promptInfo).toMatchObject({ logprobs: [], ranks: [] });
  });

  it('returns log probabilities and ranks of the tokens that are named, beside those of the sampled one or without', async () => {
    const output = { includeSpecialTokens: false, echo: false, promptText: false };
    const { logprobs: tops } = await generate(server.client, {
      ...OURS,
      output: { ...output, logprobs: 20, promptLogprobs: undefined },
    });
    const ids = [...new Set(tops.flatMap(({ top }) => top.slice(0, 3).map(({ tokenId }) => tokenId)))].slice(0, 20);
    const select = { $case: 'tokenIds' as const, value: TokenIds.create({ ids }) };
    const response = ResponseOptions.create({ outputCandidates: { select }, outputTokenIds: true });
    const { outputs } = await once({ ...SAMPLED, response });
    expect(outputs).toMatchObject({ logprobs: [], ranks: [], tokenIds: tops.map(({ tokenId }) => tokenId) });
    expect(outputs?.candidateTokens).toHaveLength(24);
    let compared = 0;
    tops.forEach(({ top, tokenId, logprob, rank }, i) => {
      const { tokens } = outputs!.candidateTokens[i]!;
      expect(tokens.map(({ id }) => id)).toEqual(ids);
      for (const named of tokens) {
        // No two of this model's tokens are equally likely.
        const place = top.findIndex((each) => each.tokenId === named.id);
        if (named.id === tokenId) expect(named).toMatchObject({ logprob, rank });
        if (place < 0) expect(named.rank).toBeGreaterThan(20);
        else expect(named).toMatchObject({ logprob: top[place]!.logprob, rank: place + 1 });
        compared += Number(place >= 0);
      }
    });
    expect(compared).toBeGreaterThan(24);
    const both = await once({ ...SAMPLED, response: { ...response, outputLogprobs: true } });
    expect(both.outputs?.candidateTokens).toEqual(outputs?.candidateTokens);
    expect(both.outputs?.logprobs).toEqual(tops.map(({ logprob }) => logprob));
    const streamed = await messagesOf(clients.inference.generateStream({ ...SAMPLED, response }));
    expect(streamed.flatMap((message) => message.outputs?.candidateTokens ?? [])).toEqual(outputs?.candidateTokens);
  });

  it.each([
    ['a token that there is not', [1_000_000]],
    ['a token twice', [5, 6, 5]],
    ['21 tokens', Array.from({ length: 21 }, (_, i) => i)],
  ])('refuses log probabilities of %s, by the field’s name', async (_what, ids) => {
    const select = { $case: 'tokenIds' as const, value: TokenIds.create({ ids }) };
    const response = ResponseOptions.create({ outputCandidates: { select } });
    await expect(once({ ...SAMPLED, response })).rejects.toThrow('response.output_candidates.token_ids.ids');
  });

  it('encodes a text as our own service does where its special tokens count', async () => {
    const text = 'the fox </s> ran';
    const { tokenIds } = await new Promise<{ tokenIds: number[] }>((resolve, reject) =>
      server.client.tokenize(
        { model: '', input: { $case: 'text', value: { text, parseSpecial: true, addSpecial: undefined } } },
        (error, response) => (error ? reject(error) : resolve(response)),
      ),
    );
    const { prompts } = await stream(
      theirs({ prompt: { $case: 'text', value: text }, response: ResponseOptions.create({ promptTokenIds: true }) }),
    );
    expect(prompts[0]?.tokenIds).toEqual(tokenIds);
  });

  it('returns ids where they are asked for alone, and text unless it is not wanted', async () => {
    const plain = await stream({ ...SAMPLED, response: undefined });
    expect({ ids: plain.tokenIds, prompt: plain.prompts[0]?.tokenIds }).toEqual({ ids: [], prompt: [] });
    expect(plain.text).not.toBe('');
    const silent = await stream({ ...SAMPLED, response: ResponseOptions.create({ outputText: false }) });
    expect(silent.text).toBe('');
    expect(silent.numTokens).toBe(24);
  });

  it('takes 0 for the default where the proto says so: 20 tokens, one sequence, no filter; and no temperature for 0', async () => {
    const tokens = [1, 270, 280];
    const ours = await generate(
      server.client,
      request({ tokens, sampling: { temperature: 0 }, stop: { maxTokens: 20, ignoreEos: true } }),
    );
    const { tokenIds, finishes } = await stream(
      theirs({
        prompt: { $case: 'tokenIds', value: { ids: tokens } },
        sampling: RandomSampling.create(),
        decoding: DecodingParameters.create(),
        stopping: StoppingCriteria.create({ ignoreEos: true }),
        response: ResponseOptions.create({ outputTokenIds: true }),
      }),
    );
    expect(tokenIds).toEqual(ours.tokenIds);
    expect(finishes).toMatchObject([{ numOutputTokens: 20, finishReason: Finish.LENGTH }]);
  });

  it('streams several sequences by index, each with its end', async () => {
    const sampling = RandomSampling.create({ numSequences: 3, seed: 5n });
    const { outputs, finishes, prompts } = await stream({ ...SAMPLED, sampling });
    const ours = await generate(server.client, {
      ...OURS,
      n: 3,
      sampling: { ...OURS.sampling!, seed: 5n, topK: 0, topP: undefined },
    });
    for (const index of [0, 1, 2]) {
      const ids = outputs.filter((output) => output.index === index).flatMap(({ tokenIds }) => tokenIds);
      expect(ids).toEqual(ours.completions[index]?.tokenIds);
    }
    expect(finishes.map(({ index }) => index).sort()).toEqual([0, 1, 2]);
    expect(prompts).toHaveLength(1);
  });

  it('says what ended a sequence: a token that was named, one of the model’s own, or a string', async () => {
    const base = theirs({ ...SAMPLED, sampling: RandomSampling.create({ seed: 77n }), decoding: undefined });
    const { tokenIds } = await stream(base);
    const named = tokenIds[5] as number;
    const byToken = await stream({
      ...base,
      stopping: StoppingCriteria.create({ ...base.stopping, stopTokenIds: [named] }),
    });
    expect(byToken.finishes[0]).toMatchObject({
      finishReason: Finish.STOP,
      stopReason: { $case: 'stopTokenId', value: named },
    });
    const eos = 2;
    const byModel = await stream({
      ...base,
      decoding: DecodingParameters.create({ logitBias: { [eos]: 1000 } }),
      stopping: StoppingCriteria.create({ maxNewTokens: 4 }),
    });
    expect(byModel.finishes[0]).toMatchObject({
      finishReason: Finish.STOP,
      stopReason: { $case: 'eosTokenId', value: eos },
    });
    const sea = 262;
    const byString = await stream({
      ...base,
      decoding: DecodingParameters.create({ logitBias: { [sea]: 1000 } }),
      stopping: StoppingCriteria.create({ maxNewTokens: 8, stopStrings: ['sea'], includeStopStrings: true }),
    });
    expect(byString.finishes[0]).toMatchObject({ stopReason: { $case: 'stopString', value: 'sea' } });
    expect(byString.text.trim()).toBe('sea');
  });

  it('takes a large request, which is decoded in a thread', async () => {
    const text = 'the '.repeat(5000);
    expect(await refusalOf(stream(theirs({ prompt: { $case: 'text', value: text } })))).toMatchObject({
      reason: 'PROMPT_TOO_LONG',
      field: 'text',
    });
    const padded = theirs({ ...SAMPLED, stopping: { ...SAMPLED.stopping!, stopStrings: ['x'.repeat(17_000)] } });
    expect(await refusalOf(stream(padded))).toMatchObject({
      reason: 'INVALID_FIELD',
      field: 'stopping.stop_strings',
    });
    const media = theirs({ ...SAMPLED, media: [Buffer.alloc(17_000)] });
    expect(await refusalOf(stream(media))).toMatchObject({ reason: 'NOT_IMPLEMENTED', field: 'media' });
  });

  it('runs what has the lower priority first, as vLLM does: ours is the opposite', async () => {
    expect(await refusalOf(stream({ ...SAMPLED, priority: -4 }))).toMatchObject({ field: 'priority' });
    for (const priority of [-3, 5, 2 ** 31 - 1]) expect((await stream({ ...SAMPLED, priority })).numTokens).toBe(24);
    expect(await refusalOf(stream({ ...SAMPLED, priority: -(2 ** 31) }))).toMatchObject({ field: 'priority' });
  });
});
