import { randomUUID } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import { StopStrings } from '../../lib/tokenizer/stop-matcher.js';
import { RocmForgeError } from '../../shared/errors.js';
import {
  type EmbedRequest,
  type EmbedResponse,
  EmbedResponse as Response,
  Usage,
} from '../../shared/generated/rocmforge/v1/inference.js';
import type {
  EmbedRequest as EngineEmbedRequest,
  EmbedResponse as EngineEmbedResponse,
} from '../../shared/generated/vllm/grpc/engine/vllm_engine.js';
import { EncodedResponse, LargeRequest } from '../../shared/grpc/strict.js';
import type { OpenedPrompts } from '../request/embedding.js';
import type { EncodeService } from '../request/encoding/encode-service.js';
import type {
  CompletionCounts,
  GenerationParameters,
  GenerationSink,
  TokenProbability,
} from '../request/generation.js';
import type { RequestRunner } from '../request/runner.js';
import { GREEDY, type ReturnedStates } from '../request/sequence.js';
import type { ServedModel } from '../request/served-model.js';
import { TokenStates } from '../request/token-states.js';
import { runWithin } from '../request/within-streams.js';
import { embeddingRequestOf, engineRequestOf, type OpenedJson } from './embedding-requests.js';
import type { WaitingCall } from './inference.js';

/** Bytes of all embeddings of a gRPC response: most clients take no larger message. */
const MOST_MESSAGE_BYTES = 4 << 20;

/** Inputs of a request that run or wait at once: others are not kept from the queue by one request. */
const MOST_RUNNING = 64;

const STOP: GenerationParameters['stop'] = {
  ...{ strings: new StopStrings([]), tokenIds: new Set<number>(), includeStopString: false, ignoreEos: true },
  ...{ maxTokens: 1, minTokens: 0, includeSpecialTokens: false },
};

/** An encoder samples no token. */
const NOTHING: GenerationParameters['stop'] = { ...STOP, maxTokens: 0 };

/** A prompt of which nothing but hidden states is wanted. */
type StatesParameters = Pick<GenerationParameters, 'sampling' | 'returns' | 'samplesNothing' | 'stop'>;

const statesOf = (returns: ReturnedStates, isEncoder: boolean): StatesParameters =>
  isEncoder
    ? { sampling: GREEDY, returns, samplesNothing: true, stop: NOTHING }
    : { sampling: GREEDY, returns, stop: STOP };

/** Result of the model for a prompt. */
interface Computed {
  /** The state that hidden states are pooled to, or its scores, or each; absent if none was requested. */
  readonly hidden: Float32Array | undefined;
  readonly token: TokenProbability | undefined;
  readonly counts: CompletionCounts;
}

/** Embeddings or scores, one a prompt, and the tokens of each. */
export interface EmbeddedPrompts<T> {
  readonly requestId: string;
  readonly values: readonly T[];
  readonly tokens: readonly number[];
  readonly cachedTokens: number;
}

/** Embeddings and scores over one model. Each prompt is scheduled as a request that generates one token. */
export class Embeddings {
  constructor(
    private readonly model: ServedModel,
    private readonly encoder: EncodeService,
    private readonly runner: RequestRunner,
  ) {}

  /** True if the model was trained to rank documents. */
  get ranks(): boolean {
    return this.model.facts.embeddings?.ranking !== undefined;
  }

  /**
   * Answers a call of the public API.
   *
   * @returns undefined if its client has disconnected
   * @throws RocmForgeError as {@link openEmbedding}; why a prompt cannot run
   */
  async embed(
    message: EmbedRequest | LargeRequest,
    client: WaitingCall,
  ): Promise<EmbedResponse | EncodedResponse | undefined> {
    const opened =
      message instanceof LargeRequest
        ? await this.encoder.openPrompts('message', message.bytes, { mostBytes: MOST_MESSAGE_BYTES }, client)
        : this.encoder.embeddingPrompts(embeddingRequestOf(message, MOST_MESSAGE_BYTES));
    const embedded = await this.vectors(opened, client);
    if (embedded === undefined) return undefined;
    const { requestId, values, tokens, cachedTokens } = embedded;
    const response = Response.fromPartial({
      ...{ requestId, model: this.model.name },
      usage: Usage.fromPartial({ promptTokens: sum(tokens), cachedTokens }),
    });
    response.embeddings = values.map((vector, i) => ({
      values: vector as unknown as number[],
      promptTokens: tokens[i] as number,
    }));
    // Encoded at once: the message would hold each element as an object's number.
    return new EncodedResponse(Response.encode(response).finish());
  }

  /**
   * Answers a call of `vllm.grpc.engine.VllmEngine`.
   *
   * @throws RocmForgeError as {@link embed}
   */
  async embedEngine(message: EngineEmbedRequest | LargeRequest, client: WaitingCall): Promise<EngineEmbedResponse> {
    const opened =
      message instanceof LargeRequest
        ? await this.encoder.openPrompts('engine', message.bytes, { mostBytes: MOST_MESSAGE_BYTES }, client)
        : this.encoder.embeddingPrompts(engineRequestOf(message, MOST_MESSAGE_BYTES));
    const embedded = await this.vectors(opened, client);
    const vector = embedded?.values[0] ?? new Float32Array();
    return { embedding: Array.from(vector), promptTokens: embedded?.tokens[0] ?? 0, embeddingDim: vector.length };
  }

  /** Reads a JSON request of a form. @throws RocmForgeError as {@link openEmbedding} */
  openJson(form: string, bytes: Uint8Array, defaults: object, client: WaitingCall): Promise<OpenedJson> {
    return this.encoder.openPrompts(form, bytes, defaults, client) as Promise<OpenedJson>;
  }

  /**
   * The embeddings of prompts; of a model without pooling the hidden states of each prompt's tokens, `[tokens, size]`.
   *
   * @returns undefined if the client has disconnected
   * @throws RocmForgeError why one cannot be computed; `NOT_IMPLEMENTED` if the executor returns no hidden states
   */
  async vectors(opened: OpenedPrompts, client: WaitingCall): Promise<EmbeddedPrompts<Float32Array> | undefined> {
    const { pooling = 'last', isEncoder = false } = this.model.facts.embeddings ?? {};
    // If nothing comes before or behind the first token, its hidden state is that of a prompt which it is alone.
    const isFirstAlone = pooling === 'cls' && !isEncoder;
    const computed = isFirstAlone ? opened.prompts.map((ids) => ids.subarray(0, 1)) : opened.prompts;
    const parameters = statesOf({ pooling: isFirstAlone ? 'last' : pooling }, isEncoder);
    return this.computed({ ...opened, computed }, client, parameters, ({ hidden }) => {
      if (isEncoder) checkFinite(hidden as Float32Array);
      if (pooling === 'none') return hidden as Float32Array;
      const vector = (hidden as Float32Array).subarray(0, opened.dimensions);
      return opened.normalize ? normalized(vector) : vector;
    });
  }

  /**
   * The relevance of each pair: the score of the file's classification head; without one the probability of "yes" against "no".
   *
   * @returns undefined if the client has disconnected
   * @throws RocmForgeError why one cannot be computed
   */
  async scores(opened: OpenedPrompts, client: WaitingCall): Promise<EmbeddedPrompts<number> | undefined> {
    const { isEncoder = false, ranking } = this.model.facts.embeddings ?? {};
    if (ranking?.hasHead) {
      const parameters = statesOf({ pooling: ranking.pooling, isScored: true }, isEncoder);
      return this.computed(opened, client, parameters, ({ hidden }) => {
        const scores = hidden as Float32Array;
        if (isEncoder) checkFinite(scores);
        return isEncoder ? (scores[0] as number) : share(scores);
      });
    }
    const ids = ['yes', 'no'].map((word) => this.tokenOf(word));
    const sampling = {
      ...{ ...GREEDY, logprobs: 1, chosenLogprobs: 2 },
      logitBias: ids.map((id) => [id, 0] as const),
    };
    return this.computed(opened, client, { sampling, stop: STOP }, ({ token }) => {
      const [yes = 0, no = 0] = token?.chosenLogprobs ?? [];
      return 1 / (1 + Math.exp(no - yes));
    });
  }

  private tokenOf(word: string): number {
    const [id, ...more] = this.model.tokenizer.encodePrompt(word, { parseSpecial: false, addSpecial: false });
    if (id !== undefined && more.length === 0) return id;
    throw new RocmForgeError('NOT_IMPLEMENTED', `the model cannot rank: "${word}" is not one of its tokens`, {
      field: 'model',
    });
  }

  /** Runs all prompts, so many at a time. The first that fails ends the others. @param computed what is computed of each */
  private async computed<T>(
    {
      prompts,
      computed = prompts,
      priority,
      requestId: given,
    }: OpenedPrompts & { readonly computed?: readonly Uint32Array[] },
    client: WaitingCall,
    parameters: StatesParameters,
    toValue: (computed: Computed) => T,
  ): Promise<EmbeddedPrompts<T> | undefined> {
    const requestId = given || randomUUID();
    // Each prompt listens.
    setMaxListeners(0, client.signal);
    const values: T[] = [];
    let cachedTokens = 0;
    const work = async (promptIds: Uint32Array, index: number): Promise<void> => {
      if (client.signal.aborted) return;
      const id = prompts.length === 1 ? requestId : `${requestId}-${index}`;
      const all = {
        ...{ ...parameters, promptIds, isPromptOnly: true, n: 1 },
        ...{ priority, timeLimitMs: 0, promptText: undefined },
      };
      const result = await this.run(all, client, id);
      if (result === undefined) return;
      cachedTokens += result.counts.cachedTokens;
      values[index] = toValue(result);
    };
    try {
      const { signal } = client;
      await runWithin(
        computed,
        { most: MOST_RUNNING, mayBegin: () => this.runner.hasRoomForMore(client, 1), signal },
        work,
      );
    } catch (error) {
      client.cancel();
      throw error;
    }
    if (client.signal.aborted) return undefined;
    return { requestId, values, tokens: prompts.map(({ length }) => length), cachedTokens };
  }

  private run(parameters: GenerationParameters, client: WaitingCall, id: string): Promise<Computed | undefined> {
    const { principal, peer, trace, deadline, httpRequestId, signal } = client;
    return new Promise((resolve, reject) => {
      let hidden: Float32Array | undefined;
      const { size = 0 } = this.model.facts.embeddings ?? {};
      const states = new TokenStates(parameters.returns?.pooling === 'none' ? parameters.promptIds.length : 0, size);
      let token: TokenProbability | undefined;
      const aborted = (): void => resolve(undefined);
      const sink: GenerationSink = {
        chunk: (_index, _ids, _text, logprobs) => {
          token = logprobs[0];
        },
        pooled: (values) => {
          hidden = floatsOf(values);
        },
        hiddenStates: (_position, bytes) => {
          hidden = states.add(floatsOf(bytes));
        },
        progress: () => undefined,
        prompt: () => undefined,
        complete: (_index, _finish, counts) => {
          signal.removeEventListener('abort', aborted);
          if (parameters.returns !== undefined && hidden === undefined) {
            const what = 'the executor returns no hidden states of this model';
            reject(new RocmForgeError('NOT_IMPLEMENTED', what, { field: 'model' }));
          } else resolve({ hidden, token, counts });
        },
        error: (error) => {
          signal.removeEventListener('abort', aborted);
          reject(error);
        },
      };
      signal.addEventListener('abort', aborted, { once: true });
      const arrivedAt = performance.now();
      this.runner.run(parameters, sink, signal, { principal, peer, trace, deadline, httpRequestId, id, arrivedAt });
    });
  }
}

/** @throws RocmForgeError `NON_FINITE_LOGITS` */
function checkFinite(hidden: Float32Array): void {
  if (hidden.every(Number.isFinite)) return;
  throw new RocmForgeError(
    'NON_FINITE_LOGITS',
    'the model gives no finite hidden states for this input: a value overflows in it',
  );
}

/** A copy, at an address that floats may have. */
const floatsOf = (bytes: Uint8Array): Float32Array => new Float32Array(new Uint8Array(bytes).buffer);

/** The share of the first label in the softmax of all. */
function share(scores: Float32Array): number {
  const largest = Math.max(...scores);
  const powers = Array.from(scores, (score) => Math.exp(score - largest));
  return (powers[0] as number) / sum(powers);
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0);

/** The vector with the Euclidean norm 1; zeros stay zeros. Sums are in double precision. */
export function normalized(vector: Float32Array): Float32Array {
  const norm = Math.sqrt(dot(vector, vector));
  return norm === 0 ? vector : vector.map((value) => value / norm);
}

/** The inner product, in double precision. */
export function dot(one: Float32Array, other: Float32Array): number {
  let total = 0;
  for (let i = 0; i < one.length; i++) total += (one[i] as number) * (other[i] as number);
  return total;
}
