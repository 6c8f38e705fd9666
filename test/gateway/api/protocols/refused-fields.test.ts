import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { Client, credentials, Metadata, status } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ProtocolField } from '../../../../src/gateway/api/protocols/protocol.js';
import { VLLM_ENGINE } from '../../../../src/gateway/api/protocols/vllm-engine.js';
import { VLLM_INFERENCE } from '../../../../src/gateway/api/protocols/vllm-inference.js';
import { GenerateRequest as EngineRequest } from '../../../../src/shared/generated/vllm/grpc/engine/vllm_engine.js';
import { type DeepPartial, GenerateRequest } from '../../../../src/shared/generated/vllm/inference.js';
import { packageRoot } from '../../../../src/shared/package.js';
import { type FakeGateway, startFakeGateway } from '../../../support/fake-gateway.js';
import { messagesOf, type ProtocolClients, protocolClients, refusalOf, unary } from '../../../support/protocols.js';

type Parts = DeepPartial<GenerateRequest>;
type EngineParts = DeepPartial<EngineRequest>;

let server: FakeGateway;
let clients: ProtocolClients;
beforeAll(async () => {
  server = await startFakeGateway();
  clients = protocolClients(server.address);
});
afterAll(async () => {
  clients.close();
  await server.stop();
});

const some = Buffer.from([0x0a, 0x00]);

/** A request of each refused field that uses it and nothing else. */
const VLLM_USES: Readonly<Record<string, Parts>> = {
  'decoding.allowed_token_ids': { decoding: { allowedTokenIds: [1] } },
  'decoding.structural_tag': { decoding: { structuredOutput: { $case: 'structuralTag', value: 'a' } } },
  'decoding.bad_words_token_ids': { decoding: { badWordsTokenIds: [some] } },
  'stopping.thinking_token_budget': { stopping: { thinkingTokenBudget: 0n } },
  'response.prompt_candidates': { response: { promptCandidates: some } },
  'response.output_candidates.all': { response: { outputCandidates: { select: { $case: 'all', value: true } } } },
  'response.routed_experts_prompt_start': { response: { routedExpertsPromptStart: 0 } },
  'kv.bypass_prefix_cache': { kv: { bypassPrefixCache: true } },
  'kv.cache_salt': { kv: { cacheSalt: 'a' } },
  'kv.kv_transfer_params': { kv: { kvTransferParams: some } },
  'kv.ec_transfer_params': { kv: { ecTransferParams: some } },
  truncate_prompt_tokens: { truncatePromptTokens: 2 },
  session_id: { sessionId: 'a' },
  media: { media: [some] },
  lora_name: { loraName: 'a' },
  watermarking: { watermarking: true },
  kv_hints: { kvHints: some },
  engine_reasoning_gate: { engineReasoningGate: some },
};

const ENGINE_USES: Readonly<Record<string, EngineParts>> = {
  'sampling_params.structural_tag': { samplingParams: { constraint: { $case: 'structuralTag', value: 'a' } } },
  'sampling_params.logprobs': { samplingParams: { logprobs: -1 } },
  'sampling_params.prompt_logprobs': { samplingParams: { promptLogprobs: -1 } },
  'sampling_params.truncate_prompt_tokens': { samplingParams: { truncatePromptTokens: -1 } },
  kv_transfer_params: { kvTransferParams: some },
  mm_inputs: { mmInputs: some },
  kv_transfer_params_json: { kvTransferParamsJson: '{}' },
  data_parallel_rank: { dataParallelRank: 1 },
};

const vllmRequest = (parts: Parts): GenerateRequest =>
  GenerateRequest.fromPartial({ prompt: { $case: 'tokenIds', value: { ids: [260] } }, ...parts });
const engineRequest = (parts: EngineParts): EngineRequest =>
  EngineRequest.fromPartial({ input: { $case: 'tokenized', value: { inputIds: [260] } }, ...parts });
const vllm = (parts: Parts) => messagesOf(clients.inference.generateStream(vllmRequest(parts)));
const engine = (parts: EngineParts) => messagesOf(clients.engine.generate(engineRequest(parts)));

const refusedOf = <Request>(fields: readonly ProtocolField<Request>[]) =>
  fields.flatMap(({ field, refusedIf }) => (refusedIf === undefined ? [] : [field])).sort();

describe('a field of another protocol that is not built', () => {
  it('has a request here that uses it', () => {
    expect(Object.keys(VLLM_USES).sort()).toEqual(refusedOf(VLLM_INFERENCE.fields));
    expect(Object.keys(ENGINE_USES).sort()).toEqual(refusedOf(VLLM_ENGINE.fields));
  });

  it.each(Object.entries(VLLM_USES))('of vllm.Inference is refused by its name: %s', async (field, parts) => {
    const refusal = { code: status.UNIMPLEMENTED, reason: 'NOT_IMPLEMENTED', field };
    expect(await refusalOf(vllm(parts))).toEqual(refusal);
    const once = unary(clients.inference.generate.bind(clients.inference), vllmRequest(parts));
    expect(await refusalOf(once)).toEqual(refusal);
  });

  it.each(Object.entries(ENGINE_USES))('of VllmEngine is refused by its name: %s', async (field, parts) => {
    expect(await refusalOf(engine(parts))).toEqual({ code: status.UNIMPLEMENTED, reason: 'NOT_IMPLEMENTED', field });
  });

  it('is nothing to refuse where it says what is so anyway', async () => {
    const stopping = { thinkingTokenBudget: -1n };
    const decoding = { structuredOutput: { $case: 'jsonObject' as const, value: false } };
    await vllm({ stopping, decoding, kv: {}, response: {}, sessionId: '', watermarking: false });
    const constraint = { $case: 'jsonObject' as const, value: false };
    await engine({
      dataParallelRank: 0,
      samplingParams: { constraint, maxTokens: 2, spacesBetweenSpecialTokens: true },
    });
  });
});

describe('a field that nobody knows here', () => {
  /** A field of another protocol's next version: number and a varint. */
  const unknown = (number: number) => [...varint(number << 3), 1];
  const varint = (value: number): number[] =>
    value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...varint(value >>> 7)];
  const send = (service: string, method: string, bytes: Buffer) =>
    new Promise<never>((_, reject) => {
      const raw = new Client(server.address, credentials.createInsecure());
      raw
        .makeServerStreamRequest(
          `/${service}/${method}`,
          (value: Buffer) => value,
          (value: Buffer) => value,
          bytes,
        )
        .on('data', () => undefined)
        .on('error', (error) => {
          raw.close();
          reject(error);
        });
    });

  it.each([
    ['vllm.Inference', 'GenerateStream', GenerateRequest.encode(vllmRequest({})).finish()],
    ['vllm.grpc.engine.VllmEngine', 'Generate', EngineRequest.encode(engineRequest({})).finish()],
    ['vllm.Control', 'Abort', []],
    ['vllm.Control', 'GetServerInfo', []],
    ['vllm.grpc.engine.VllmEngine', 'GetLoads', []],
  ] as const)('is refused by its number: %s', async (service, method, bytes) => {
    const refusal = { code: status.UNIMPLEMENTED, reason: 'NOT_IMPLEMENTED' };
    const message = Buffer.from([...bytes, ...unknown(777)]);
    expect(await refusalOf(send(service, method, message))).toEqual({ ...refusal, field: '777' });
  });

  it('is refused by its path inside another', async () => {
    const inner = [0x3a, 3, ...unknown(99)];
    const bytes = Buffer.from([...GenerateRequest.encode(vllmRequest({})).finish(), ...inner]);
    expect(await refusalOf(send('vllm.Inference', 'GenerateStream', bytes))).toMatchObject({ field: 'decoding.99' });
    const prompt = Buffer.from([0x22, 3, ...unknown(99)]);
    expect(await refusalOf(send('vllm.Inference', 'GenerateStream', prompt))).toMatchObject({ field: 'token_ids.99' });
  });

  it('is refused where it has the number of one that is known, and another type', async () => {
    const priority = Buffer.from([...GenerateRequest.encode(vllmRequest({})).finish(), 0x62, 1, 0]);
    expect(await refusalOf(send('vllm.Inference', 'GenerateStream', priority))).toMatchObject({ field: '12' });
  });
});

describe('a field whose value is wrong', () => {
  it.each<[string, Parts]>([
    ['prompt', { prompt: undefined }],
    ['token_ids.ids', { prompt: { $case: 'tokenIds', value: { ids: [100_000] } } }],
    ['token_ids.ids', { prompt: { $case: 'tokenIds', value: { ids: [] } } }],
    ['temperature', { temperature: -1 }],
    ['sampling.num_sequences', { sampling: { numSequences: 65 } }],
    ['sampling.num_sequences', { sampling: { numSequences: 0xffff_ffff } }],
    ['sampling.top_p', { sampling: { topP: Number.NaN } }],
    ['sampling.seed', { sampling: { seed: -1n } }],
    ['decoding.logit_bias', { decoding: { logitBias: { 100000: 1 } } }],
    ['decoding.repetition_penalty', { decoding: { repetitionPenalty: -1 } }],
    ['stopping.min_new_tokens', { stopping: { minNewTokens: 21 } }],
    ['stopping.stop_strings', { stopping: { stopStrings: ['x'.repeat(300)] } }],
    ['request_id', { requestId: 'x'.repeat(129) }],
    ['model', { model: 'another' }],
  ])('of vllm.Inference is told by its own name: %s', async (field, parts) => {
    expect(await refusalOf(vllm(parts))).toMatchObject({ field });
  });

  it.each<[string, EngineParts]>([
    ['input', { input: undefined }],
    ['tokenized.input_ids', { input: { $case: 'tokenized', value: { inputIds: [100_000] } } }],
    ['sampling_params.temperature', { samplingParams: { temperature: -1 } }],
    ['sampling_params.max_tokens', { samplingParams: { maxTokens: 0 } }],
    ['sampling_params.n', { samplingParams: { n: 0xffff_ffff } }],
    ['sampling_params.seed', { samplingParams: { seed: -1 } }],
    ['sampling_params.logprobs', { samplingParams: { logprobs: 21 } }],
    ['sampling_params.logit_bias', { samplingParams: { logitBias: { [-1]: 1 } } }],
    ['sampling_params.stop', { samplingParams: { stop: ['x'.repeat(300)] } }],
  ])('of VllmEngine is told by its own name: %s', async (field, parts) => {
    expect(await refusalOf(engine(parts))).toMatchObject({ field });
  });
});

describe('the rank of data parallelism, which is metadata of a call of vllm.Inference', () => {
  const withRank = (rank: string) => {
    const metadata = new Metadata();
    metadata.set('x-data-parallel-rank', rank);
    return messagesOf(clients.inference.generateStream(vllmRequest({}), metadata));
  };

  it('is 0, or refused', async () => {
    await withRank('0');
    for (const rank of ['1', 'a', '']) {
      expect(await refusalOf(withRank(rank))).toMatchObject({ field: 'x-data-parallel-rank' });
    }
  });
});

describe('the table of fields', () => {
  interface Descriptor {
    readonly name: string;
    readonly field?: readonly { readonly name: string; readonly typeName?: string }[];
    readonly nestedType?: readonly { readonly name: string; readonly options?: { readonly mapEntry?: boolean } }[];
  }
  /** Paths of all fields of a message that hold no message. */
  function leaves(messages: ReadonlyMap<string, Descriptor>, name: string, above = ''): string[] {
    return (messages.get(name)?.field ?? []).flatMap(({ name: field, typeName }) => {
      const isMessage = typeName !== undefined && messages.has(typeName);
      return isMessage ? leaves(messages, typeName as string, `${above}${field}.`) : [`${above}${field}`];
    });
  }

  it.each([
    ['vllm', VLLM_INFERENCE.fields as readonly ProtocolField<never>[]],
    ['vllm.grpc.engine', VLLM_ENGINE.fields as readonly ProtocolField<never>[]],
  ])('has every field of a request of package %s', (name, fields) => {
    const buf = path.join(packageRoot, 'node_modules', '.bin', 'buf');
    const image = execFileSync(buf, ['build', 'protocols', '-o', '-#format=json'], { cwd: packageRoot });
    const files = (JSON.parse(image.toString()) as { file: { package: string; messageType?: Descriptor[] }[] }).file;
    const messages = files
      .filter((file) => file.package === name)
      .flatMap(({ messageType }) => messageType ?? [])
      .map((message) => [`.${name}.${message.name}`, message] as const);
    const told = leaves(new Map(messages), `.${name}.GenerateRequest`);
    expect(fields.map(({ field }) => field).sort()).toEqual(told.sort());
  });
});
