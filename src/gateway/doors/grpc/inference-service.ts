import { randomUUID } from 'node:crypto';
import type { ServerUnaryCall, ServerWritableStream, sendUnaryData } from '@grpc/grpc-js';
import { RocmForgeError } from '../../../shared/errors.js';
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
import type { RequestContext } from '../../request/context.js';
import type { EncodeService } from '../../request/encoding/encode-service.js';
import type { OpenedGeneration } from '../../request/encoding/text-jobs.js';
import type { Requester } from '../../request/encoding/text-threads.js';
import type { GenerationParameters, GenerationSink } from '../../request/generation.js';
import { checkLimits, checkModelName, MAX_ANSWER_TEXT_BYTES } from '../../request/limits.js';
import type { RequestRunner } from '../../request/runner.js';
import type { ServedModel } from '../../request/served-model.js';
import { checkGeneration, generationParameters } from '../../request/validate.js';
import { checkTokenIds } from '../../tokenizer/prompt.js';
import { abortWith, callerOf } from './caller.js';
import { finishReason, generateComplete, promptLogprobs, stopMatch, tokenLogprobs } from './messages.js';
import { INLINE_MESSAGE_BYTES, type Method, methodBytes } from './method-bytes.js';
import { StreamWriter } from './stream-writer.js';
import { WriteRounds } from './write-rounds.js';

export const INFERENCE_SERVICE = 'rocmforge.v1.InferenceService';

/** Tokens a slow reader's stream holds before its generation is paused. */
const MAX_HELD_TOKENS = 1024;

/** What can be told of the executor from outside. */
export interface Readiness {
  readonly ready: boolean;
  readonly device: string;
}

/** A request that can run. */
interface OpenedRequest {
  readonly parameters: GenerationParameters;
  readonly context: RequestContext;
}

/** The public gRPC API over one model. */
export class InferenceService {
  private readonly rounds = new WriteRounds();

  constructor(
    private readonly model: ServedModel,
    private readonly encoder: EncodeService,
    private readonly runner: RequestRunner,
    private readonly readiness: () => Readiness,
    private readonly streamInterval = 1,
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
      const gone = abortWith(call);
      const opened = await this.open(call.request, callerOf(call, gone), { isUnary: false });
      if (opened === undefined) return;
      const { parameters, context } = opened;
      const writer = new StreamWriter(call, {
        requestId: context.id,
        maxHeldTokens: MAX_HELD_TOKENS,
        streamInterval: this.streamInterval,
        rounds: this.rounds,
        onSlow: (slow) => running.pause(slow),
        onBroken: () => gone.abort(),
      });
      const sink: GenerationSink = {
        chunk: (index, tokenIds, text, logprobs) => writer.chunk(index, tokenIds, text, logprobs.map(tokenLogprobs)),
        prompt: (logprobs) => writer.prompt(logprobs.map(promptLogprobs)),
        complete: (index, finish, counts) => {
          writer.complete(generateComplete(index, finish, counts));
          if (running.done) writer.end();
        },
        error: (error) => writer.fail(error),
      };
      const running = this.runner.run(parameters, sink, gone.signal, context);
    } catch (error) {
      call.emit('error', toStatus(error));
    }
  }

  private async generate(
    call: ServerUnaryCall<GenerateRequest, GenerateResponse>,
    callback: sendUnaryData<GenerateResponse>,
  ): Promise<void> {
    try {
      const gone = abortWith(call);
      const opened = await this.open(call.request, callerOf(call, gone), { isUnary: true });
      if (opened === undefined) return;
      const { parameters, context } = opened;
      const response = GenerateResponse.fromPartial({ requestId: context.id, model: this.model.name });
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
      let textBytes = 0;
      const sink: GenerationSink = {
        chunk: (index, tokenIds, text, logprobs) => {
          const completion = response.completions[index];
          if (completion === undefined || gone.signal.aborted) return;
          textBytes += Buffer.byteLength(text);
          if (textBytes > MAX_ANSWER_TEXT_BYTES) {
            const message = `the texts have more than the ${MAX_ANSWER_TEXT_BYTES} bytes of one answer; stream them`;
            callback(toStatus(new RocmForgeError('MESSAGE_TOO_LARGE', message)), null);
            gone.abort();
            return;
          }
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
          if (running.done) callback(null, response);
        },
        error: (error) => callback(toStatus(error), null),
      };
      const running = this.runner.run(parameters, sink, gone.signal, context);
    } catch (error) {
      callback(toStatus(error), null);
    }
  }

  /** Decodes, checks and encodes a request. Undefined: its client has gone meanwhile. */
  private async open(
    message: GenerateStreamRequest,
    requester: Requester,
    { isUnary }: { readonly isUnary: boolean },
  ): Promise<OpenedRequest | undefined> {
    const {
      model: { facts, tokenizer },
      encoder,
    } = this;
    const received = wellFormed(message);
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
    const { signal, ...caller } = requester;
    if (signal.aborted) return undefined;
    return {
      parameters: generationParameters(request, { facts, tokenizer, promptIds, inputField, promptText, isUnary }),
      context: { ...caller, id: request.requestId || randomUUID() },
    };
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
      .then(() => handle(wellFormed(call.request), callerOf(call)))
      // What is encoded already passes the serializer as it is (strictService).
      .then((response) => callback(null, response as Response))
      .catch((error: unknown) => callback(toStatus(error), null));
  }
}
