import type { ServerUnaryCall, ServerWritableStream, sendUnaryData } from '@grpc/grpc-js';
import { asRocmForgeError } from '../../../shared/errors.js';
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
} from '../../../shared/generated/rocmforge/v1/inference.js';
import { toStatus } from '../../../shared/grpc/status.js';
import { EncodedResponse, LargeRequest, type RequestBytes, wellFormed } from '../../../shared/grpc/strict.js';
import type { Logger } from '../../../shared/log.js';
import type { Metrics } from '../../metrics.js';
import type { Engine } from '../../replica/engine.js';
import type { EncodeService } from '../../request/encoding/encode-service.js';
import type { OpenedGeneration } from '../../request/encoding/text-jobs.js';
import type { Requester } from '../../request/encoding/text-threads.js';
import { Generation, type GenerationParameters, type GenerationSink } from '../../request/generation.js';
import { checkLimits, checkModelName } from '../../request/limits.js';
import type { ServedModel } from '../../request/served-model.js';
import { checkGeneration, generationParameters } from '../../request/validate.js';
import { checkTokenIds } from '../../tokenizer/prompt.js';
import { finishReason, generateComplete, promptLogprobs, stopMatch, tokenLogprobs } from './messages.js';
import { INLINE_MESSAGE_BYTES, type Method, methodBytes } from './method-bytes.js';
import { peerOf } from './peer.js';
import { StreamWriter } from './stream-writer.js';

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
    private readonly encoder: EncodeService,
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
      tokenize: (call, callback) =>
        this.answer(call, callback, (request, requester) => this.tokenize(request, requester)),
      detokenize: (call, callback) =>
        this.answer(call, callback, (request, requester) => this.detokenize(request, requester)),
      listModels: (call, callback) => this.answer(call, callback, (request) => this.listModels(request)),
      getModel: (call, callback) => this.answer(call, callback, (request) => this.getModel(request)),
    };
  }

  /** The bytes that each method's requests may have. */
  get requestBytes(): Readonly<Record<Method, RequestBytes>> {
    const { contextLength } = this.model;
    const sizes = Object.entries(methodBytes(contextLength)).map(([name, most]) => [
      name,
      { most, inline: INLINE_MESSAGE_BYTES, budget: this.encoder.budget },
    ]);
    return Object.fromEntries(sizes) as Record<Method, RequestBytes>;
  }

  private async generateStream(
    call: ServerWritableStream<GenerateStreamRequest, GenerateStreamResponse>,
  ): Promise<void> {
    try {
      const parameters = await this.open(call, { isUnary: false });
      if (parameters === undefined) return;
      const { generation, cancel } = this.start(parameters, {
        chunk: (index, tokenIds, text, logprobs) => writer.chunk(index, tokenIds, text, logprobs.map(tokenLogprobs)),
        prompt: (logprobs) => writer.prompt(logprobs.map(promptLogprobs)),
        complete: (index, finish, counts) => {
          writer.complete(generateComplete(index, finish, counts));
          if (generation.done) writer.end();
        },
        error: (error) => writer.fail(error),
      });
      const writer = new StreamWriter(call, {
        requestId: parameters.requestId,
        maxHeldTokens: MAX_HELD_TOKENS,
        onSlow: (slow) => this.engine.pause(generation, slow),
        onBroken: cancel,
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
      const parameters = await this.open(call, { isUnary: true });
      if (parameters === undefined) return;
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

  /** Decodes, checks and encodes a request. Undefined: its client has gone meanwhile. */
  private async open(
    call: { readonly request: GenerateStreamRequest; readonly cancelled: boolean; getPeer(): string },
    { isUnary }: { readonly isUnary: boolean },
  ): Promise<GenerationParameters | undefined> {
    const {
      model: { facts, tokenizer },
      encoder,
    } = this;
    const peer = peerOf(call);
    const requester = requesterOf(call, peer);
    const received = wellFormed(call.request);
    const { request, inputField, promptIds } =
      received instanceof LargeRequest
        ? await encoder.openGeneration(received.bytes, requester)
        : await this.openSmall(received, requester);
    const promptText = request.output?.echo
      ? await encoder.detokenize(
          promptIds,
          { wholeText: true, includeSpecial: request.output.includeSpecialTokens },
          requester,
        )
      : undefined;
    if (call.cancelled) return undefined;
    return generationParameters(request, { facts, tokenizer, promptIds, inputField, promptText, peer, isUnary });
  }

  private async openSmall(request: GenerateStreamRequest, requester: Requester): Promise<OpenedGeneration> {
    const {
      model: { facts },
      encoder,
    } = this;
    checkGeneration(request, facts);
    const promptIds = await encoder.encode(request.input, requester);
    return { request, inputField: request.input?.$case ?? 'input', promptIds };
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

  private async tokenize(request: TokenizeRequest, requester: Requester): Promise<TokenizeResponse | EncodedResponse> {
    const {
      model: { facts },
      encoder,
    } = this;
    if (request instanceof LargeRequest) {
      return new EncodedResponse(await encoder.answerTokenize(request.bytes, requester));
    }
    checkLimits(request, facts);
    checkModelName(request.model, facts);
    return { tokenIds: Array.from(await encoder.encode(request.input, requester)) };
  }

  private async detokenize(
    request: DetokenizeRequest,
    requester: Requester,
  ): Promise<DetokenizeResponse | EncodedResponse> {
    const {
      model: { facts },
      encoder,
    } = this;
    if (request instanceof LargeRequest) {
      return new EncodedResponse(await encoder.answerDetokenize(request.bytes, requester));
    }
    checkLimits(request, facts);
    checkModelName(request.model, facts);
    checkTokenIds(request.tokenIds, facts.vocabularySize, 'token_ids');
    const options = { wholeText: true, includeSpecial: request.includeSpecialTokens };
    return { text: await encoder.detokenize(Uint32Array.from(request.tokenIds), options, requester) };
  }

  private async listModels(_request: ListModelsRequest): Promise<ListModelsResponse> {
    return { models: [this.describe()] };
  }

  private async getModel(request: GetModelRequest): Promise<GetModelResponse> {
    checkLimits(request, this.model.facts);
    checkModelName(request.model, this.model.facts);
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

  private answer<Request, Response>(
    call: ServerUnaryCall<Request, Response>,
    callback: sendUnaryData<Response>,
    handle: (request: Request, requester: Requester) => Promise<Response | EncodedResponse>,
  ): void {
    Promise.resolve()
      .then(() => handle(wellFormed(call.request), requesterOf(call, peerOf(call))))
      // What is encoded already passes the serializer as it is (strictService).
      .then((response) => callback(null, response as Response))
      .catch((error: unknown) => callback(toStatus(error), null));
  }
}

function requesterOf(call: { readonly cancelled: boolean }, peer: string): Requester {
  return {
    peer,
    get cancelled() {
      return call.cancelled;
    },
  };
}
