import type { ServerUnaryCall, ServerWritableStream, sendUnaryData } from '@grpc/grpc-js';
import { asRocmForgeError, RocmForgeError } from '../../shared/errors.js';
import {
  type DetokenizeRequest,
  type DetokenizeResponse,
  FinishReason,
  type GenerateRequest,
  GenerateResponse,
  type GenerateStreamRequest,
  type GenerateStreamResponse,
  type GetModelRequest,
  type GetModelResponse,
  type InferenceServiceServer,
  type ListModelsRequest,
  type ListModelsResponse,
  type Model,
  type TokenizeRequest,
  type TokenizeResponse,
} from '../../shared/generated/rocmforge/v1/inference.js';
import { toStatus } from '../../shared/grpc/status.js';
import { wellFormed } from '../../shared/grpc/strict.js';
import type { Logger } from '../../shared/log.js';
import type { Engine } from '../engine.js';
import { Generation, type GenerationSink } from '../generation/generation.js';
import type { Metrics } from '../metrics.js';
import type { ServedModel } from '../served-model.js';
import { detokenize } from '../tokenizer/detokenizer.js';
import { finishReason, generateComplete, promptLogprobs, stopMatch, tokenLogprobs } from './messages.js';
import { peerOf } from './peer.js';
import { StreamWriter } from './stream-writer.js';
import { encodeInput, validateGeneration } from './validate.js';

export const INFERENCE_SERVICE = 'rocmforge.v1.InferenceService';

/** Tokens a slow reader's stream holds before its generation is paused. */
const MAX_HELD_TOKENS = 1024;

/** What can be told of the executor from outside. */
export interface Readiness {
  readonly ready: boolean;
  readonly device: string;
}

interface StartedGeneration {
  readonly generation: Generation;
  readonly cancel: () => void;
}

/** The public gRPC API over one model and one engine. */
export class InferenceService {
  constructor(
    private readonly model: ServedModel,
    private readonly engine: Engine,
    private readonly readiness: () => Readiness,
    private readonly metrics: Metrics,
    private readonly log: Logger,
  ) {}

  /** The handlers to register with a server. */
  get handlers(): InferenceServiceServer {
    return {
      generate: (call, callback) => void this.generate(call, callback),
      generateStream: (call) => void this.generateStream(call),
      tokenize: (call, callback) => this.answer(call, callback, (request) => this.tokenize(request)),
      detokenize: (call, callback) => this.answer(call, callback, (request) => this.detokenize(request)),
      listModels: (call, callback) => this.answer(call, callback, (request) => this.listModels(request)),
      getModel: (call, callback) => this.answer(call, callback, (request) => this.getModel(request)),
    };
  }

  private async generateStream(
    call: ServerWritableStream<GenerateStreamRequest, GenerateStreamResponse>,
  ): Promise<void> {
    try {
      const request = wellFormed(call.request);
      this.checkModel(request.model);
      const parameters = await validateGeneration(request, this.model, peerOf(call));
      if (call.cancelled) return;
      const { generation, cancel } = this.start(parameters, {
        chunk: (index, tokenIds, text, logprobs) => writer.chunk(index, tokenIds, text, logprobs.map(tokenLogprobs)),
        prompt: (logprobs) => writer.prompt(logprobs.map(promptLogprobs)),
        complete: (index, finish, counts) => {
          writer.complete(generateComplete(index, finish, counts));
          if (generation.done) writer.end();
        },
        error: (error) => void call.emit('error', toStatus(error)),
      });
      const writer = new StreamWriter(call, {
        requestId: parameters.requestId,
        maxHeldTokens: MAX_HELD_TOKENS,
        onSlow: (slow) => this.engine.pause(generation, slow),
      });
      call.on('cancelled', cancel);
    } catch (error) {
      call.emit('error', toStatus(error));
    }
  }

  private async generate(
    call: ServerUnaryCall<GenerateRequest, GenerateResponse>,
    callback: sendUnaryData<GenerateResponse>,
  ): Promise<void> {
    try {
      const request = wellFormed(call.request);
      this.checkModel(request.model);
      const parameters = await validateGeneration(request, this.model, peerOf(call));
      if (call.cancelled) return;
      const response = GenerateResponse.fromPartial({ requestId: parameters.requestId, model: this.model.name });
      response.completions = Array.from({ length: parameters.n }, (_, index) => ({
        index,
        text: '',
        tokenIds: [],
        logprobs: [],
        finishReason: FinishReason.UNSPECIFIED,
        stopMatch: undefined,
        seed: 0n,
      }));
      const usage = { promptTokens: parameters.promptIds.length, cachedTokens: 0, completionTokens: 0 };
      response.usage = usage;
      const { generation, cancel } = this.start(parameters, {
        chunk: (index, tokenIds, text, logprobs) => {
          const completion = response.completions[index];
          if (completion === undefined) return;
          completion.text += text;
          completion.tokenIds.push(...tokenIds);
          completion.logprobs.push(...logprobs.map(tokenLogprobs));
        },
        prompt: (logprobs) => {
          response.promptLogprobs = logprobs.map(promptLogprobs);
        },
        complete: (index, finish, counts) => {
          const completion = response.completions[index];
          if (completion === undefined) return;
          completion.finishReason = finishReason(finish);
          completion.stopMatch = stopMatch(finish);
          completion.seed = counts.seed;
          usage.cachedTokens = Math.max(usage.cachedTokens, counts.cachedTokens);
          usage.completionTokens += counts.completionTokens;
          if (generation.done) callback(null, response);
        },
        error: (error) => callback(toStatus(error), null),
      });
      call.on('cancelled', cancel);
    } catch (error) {
      callback(toStatus(error), null);
    }
  }

  /** Starts a generation. `cancel` ends it for a client that went away; after its end it does nothing. */
  private start(parameters: Generation['parameters'], sink: GenerationSink): StartedGeneration {
    const started = performance.now();
    const { requestId, timeLimitMs, promptIds } = parameters;
    let timer: NodeJS.Timeout | undefined;
    let tokens = 0;
    let firstTokenMs = 0;
    let lastTokenAt = 0;
    this.metrics.requestStarted(promptIds.length);
    const end = (outcome: string): void => {
      clearTimeout(timer);
      this.metrics.requestEnded(outcome, (performance.now() - started) / 1000);
      const durationMs = Math.round(performance.now() - started);
      this.log.info(
        { requestId, outcome, promptTokens: promptIds.length, completionTokens: tokens, firstTokenMs, durationMs },
        'generation ended',
      );
    };
    const generation: Generation = new Generation(parameters, this.model.tokenizer, {
      chunk: (index, tokenIds, text, logprobs) => {
        const now = performance.now();
        if (tokens === 0) {
          firstTokenMs = Math.round(now - started);
          this.metrics.firstToken((now - started) / 1000);
        }
        this.metrics.tokens(tokenIds.length, tokens === 0 ? undefined : (now - lastTokenAt) / 1000);
        lastTokenAt = now;
        tokens += tokenIds.length;
        sink.chunk(index, tokenIds, text, logprobs);
      },
      prompt: (logprobs) => sink.prompt(logprobs),
      complete: (index, finish, counts) => {
        if (generation.done) end(finish.reason);
        sink.complete(index, finish, counts);
      },
      error: (error) => {
        end(error.reason);
        sink.error(error);
      },
    });
    try {
      this.engine.submit(generation);
    } catch (error) {
      end(asRocmForgeError(error).reason);
      throw error;
    }
    if (timeLimitMs > 0) timer = setTimeout(() => this.engine.expire(generation), timeLimitMs);
    const cancel = (): void => {
      if (generation.done) return;
      this.engine.cancel(generation);
      end('cancelled');
    };
    return { generation, cancel };
  }

  private async tokenize(request: TokenizeRequest): Promise<TokenizeResponse> {
    this.checkModel(request.model);
    return { tokenIds: Array.from(await encodeInput(request.input, this.model)) };
  }

  private async detokenize(request: DetokenizeRequest): Promise<DetokenizeResponse> {
    this.checkModel(request.model);
    for (const id of request.tokenIds) {
      if (id < this.model.vocabularySize) continue;
      throw new RocmForgeError('TOKEN_OUT_OF_RANGE', `token id ${id} is not below ${this.model.vocabularySize}`, {
        field: 'token_ids',
      });
    }
    const options = { wholeText: true, includeSpecial: request.includeSpecialTokens };
    return { text: detokenize(this.model.tokenizer, request.tokenIds, options) };
  }

  private async listModels(_request: ListModelsRequest): Promise<ListModelsResponse> {
    return { models: [this.describe()] };
  }

  private async getModel(request: GetModelRequest): Promise<GetModelResponse> {
    this.checkModel(request.model);
    return { model: this.describe() };
  }

  private describe(): Model {
    const { name, architecture, parameters, contextLength, vocabularySize, hasChatTemplate } = this.model;
    return {
      name,
      architecture,
      parameters: BigInt(parameters),
      contextLength,
      vocabularySize,
      hasChatTemplate,
      ...this.readiness(),
    };
  }

  private checkModel(name: string): void {
    if (name === '' || name === this.model.name) return;
    throw new RocmForgeError('MODEL_NOT_FOUND', `there is no model "${name}" here, only "${this.model.name}"`, {
      field: 'model',
    });
  }

  private answer<Request, Response>(
    call: ServerUnaryCall<Request, Response>,
    callback: sendUnaryData<Response>,
    handle: (request: Request) => Promise<Response>,
  ): void {
    Promise.resolve()
      .then(() => handle(wellFormed(call.request)))
      .then((response) => callback(null, response))
      .catch((error: unknown) => callback(toStatus(error), null));
  }
}
