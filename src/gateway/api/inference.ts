import { setMaxListeners } from 'node:events';
import type { Tokenizer } from '../../lib/tokenizer/tokenizer.js';
import type { RocmForgeError } from '../../shared/errors.js';
import type {
  DetokenizeRequest,
  DetokenizeResponse,
  GenerateResponse,
  GenerateStreamRequest,
  GetModelRequest,
  GetModelResponse,
  Model,
  TokenizeRequest,
  TokenizeResponse,
} from '../../shared/generated/rocmforge/v1/inference.js';
import { EncodedResponse, LargeRequest, type RequestBytes } from '../../shared/grpc/strict.js';
import type { Matchers } from '../matching/matchers.js';
import type { EncodeService } from '../request/encoding/encode-service.js';
import { checkTokenIds } from '../request/encoding/prompt.js';
import type { CallContext } from '../request/encoding/text-threads.js';
import type { GenerationSink } from '../request/generation.js';
import { HeldSink } from '../request/held-sink.js';
import { checkLimits, checkModelName } from '../request/limits.js';
import { closeAll } from '../request/opened-constraints.js';
import type { RequestRunner } from '../request/runner.js';
import type { ServedModel } from '../request/served-model.js';
import { runWithin } from '../request/within-streams.js';
import { collectResponse } from './collect-response.js';
import { FlushScheduler } from './flush-scheduler.js';
import { generateComplete, promptLogprobs, tokenLogprobs } from './messages.js';
import { CONTROL_MESSAGE_BYTES, INLINE_MESSAGE_BYTES, type Method, methodBytes } from './method-bytes.js';
import { type OpenedRequest, RequestOpener, type RequestOpenerOptions } from './request-opener.js';
import type { ResponseStream } from './response-stream.js';
import { StreamWriter } from './stream-writer.js';

/** Tokens a slow reader's stream holds before its generation is paused. */
const MAX_HELD_TOKENS = 1024;

/** State of the executor, as seen from outside. */
export interface Readiness {
  /** True if requests are served, at once or after a load. */
  readonly ready: boolean;
  readonly device: string;
  /** True if an executor has the model loaded. */
  readonly loaded: boolean;
}

/** {@link Readiness}, and the error that a request would get if none is served; undefined if that is not known. */
export interface Availability extends Readiness {
  readonly refusal: RocmForgeError | undefined;
}

/** A client that waits for an answer, and how it is told not to. */
export interface WaitingCall extends CallContext {
  /** Nobody need compute more for it: its signal aborts. */
  cancel(): void;
}

export interface InferenceOptions extends RequestOpenerOptions {
  /** Tokens of a completion that a stream gets together, after its first; default 1. */
  readonly streamInterval?: number | undefined;
}

/** The public API over one model, as messages: what every server serves, each in its protocol. */
export class Inference {
  private readonly rounds = new FlushScheduler();
  private readonly opener: RequestOpener;

  constructor(
    private readonly model: ServedModel,
    private readonly encoder: EncodeService,
    private readonly runner: RequestRunner,
    matchers: Matchers,
    private readonly availability: () => Availability,
    private readonly options: InferenceOptions = {},
  ) {
    this.opener = new RequestOpener(model, encoder, runner, matchers, options);
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

  /** The bytes that a request of a method without a prompt may have. */
  get controlBytes(): RequestBytes {
    return { most: CONTROL_MESSAGE_BYTES, inline: CONTROL_MESSAGE_BYTES, budget: this.encoder.budget };
  }

  /** Ids that mean something to the model itself. */
  get specialTokens(): Pick<Tokenizer, 'bosId' | 'eogIds'> {
    return this.model.tokenizer;
  }

  /**
   * Runs a generation and streams it. Resolves when it is under way, or when its client is gone already; `answer` is told
   * how it ends.
   *
   * @throws RocmForgeError why it cannot run: nothing was written then
   */
  async generateStream(
    message: GenerateStreamRequest | LargeRequest,
    client: WaitingCall,
    answer: ResponseStream,
  ): Promise<void> {
    const opened = await this.opener.open(message, client, { isUnary: false });
    if (opened === undefined) return;
    const { parameters, context, toldPrompt } = opened;
    const writer = new StreamWriter(answer, {
      requestId: context.id,
      maxHeldTokens: MAX_HELD_TOKENS,
      streamInterval: this.options.streamInterval ?? 1,
      rounds: this.rounds,
      onSlow: (slow) => running.pause(slow),
      onBroken: () => client.cancel(),
    });
    const sink: GenerationSink = {
      chunk: (index, tokenIds, text, logprobs, beside) =>
        writer.chunk(index, tokenIds, text, logprobs.map(tokenLogprobs), beside),
      progress: (progress) => writer.progress(progress),
      recovery: (event) => writer.recovery(event),
      prompt: (logprobs) => writer.prompt(logprobs.map(promptLogprobs)),
      complete: (index, finish, counts) => {
        writer.complete({ ...generateComplete(index, finish, counts), promptText: toldPrompt ?? '' });
        if (running.done) writer.end();
      },
      error: (error) => writer.fail(error),
    };
    if (parameters.opened === undefined) answer.begin?.(parameters.promptIds);
    const held = parameters.opened && new HeldSink(sink);
    const running = this.runner.run(parameters, held ?? sink, client.signal, context);
    if (held === undefined) return;
    const isOpened = await held.until(parameters.opened as Promise<void>, client.signal);
    if (!isOpened) return;
    answer.begin?.(parameters.promptIds);
    held.release();
  }

  /**
   * Runs a generation to its end.
   *
   * @param onToken told when tokens come
   * @returns undefined where its client has gone meanwhile
   * @throws RocmForgeError why it cannot run or did not end; `MESSAGE_TOO_LARGE`
   */
  async generate(
    message: GenerateStreamRequest | LargeRequest,
    client: WaitingCall,
    onToken?: () => void,
  ): Promise<GenerateResponse | undefined> {
    const opened = await this.opener.open(message, client, { isUnary: true });
    return opened && this.collect(opened, client, onToken);
  }

  /**
   * Runs several generations to their ends, as many at once as the client's limit leaves. All are checked before any runs, and the first
   * that fails ends the others.
   *
   * @returns undefined where the client has gone meanwhile
   * @throws RocmForgeError as {@link generate}
   */
  async generateAll(
    messages: readonly (GenerateStreamRequest | LargeRequest)[],
    client: WaitingCall,
    onToken?: () => void,
  ): Promise<readonly GenerateResponse[] | undefined> {
    const awaitsMasks = messages.length > 1;
    const opened = await allOrNone(
      messages.map((message) => this.opener.open(message, client, { isUnary: true, awaitsMasks })),
      (one) => closeAll(one?.parameters),
    );
    let begun = 0;
    // Each prompt listens.
    setMaxListeners(0, client.signal);
    try {
      const { signal } = client;
      const mayBegin = (one: OpenedRequest | undefined) =>
        one === undefined || this.runner.hasRoomForMore(client, one.parameters.n);
      const within = { most: messages.length, mayBegin, signal };
      const responses = await runWithin(opened, within, async (one, i) => {
        begun = i + 1;
        return one && this.collect(one, client, onToken);
      });
      const whole = responses.filter((response) => response !== undefined);
      return whole.length === messages.length ? whole : undefined;
    } catch (error) {
      client.cancel();
      for (const one of opened.slice(begun)) closeAll(one?.parameters);
      throw error;
    }
  }

  private collect(
    { parameters, context, toldPrompt }: OpenedRequest,
    client: WaitingCall,
    onToken?: () => void,
  ): Promise<GenerateResponse | undefined> {
    const start = (sink: GenerationSink) => this.runner.run(parameters, sink, client.signal, context);
    return collectResponse(parameters, start, {
      ...{ requestId: context.id, model: this.model.name, promptText: toldPrompt, client, onToken },
    });
  }

  /** @throws RocmForgeError of limits, the model's name, or the text */
  async tokenize(
    request: TokenizeRequest | LargeRequest,
    caller: CallContext,
  ): Promise<TokenizeResponse | EncodedResponse> {
    const {
      model: { facts },
      encoder,
    } = this;
    if (request instanceof LargeRequest) {
      return new EncodedResponse(await encoder.answerTokenize(request.bytes, caller));
    }
    checkLimits(request, facts);
    checkModelName(request.model, facts);
    return { tokenIds: Array.from(await encoder.encode(request.input, caller)) };
  }

  /** @throws RocmForgeError of limits, the model's name, or the ids */
  async detokenize(
    request: DetokenizeRequest | LargeRequest,
    caller: CallContext,
  ): Promise<DetokenizeResponse | EncodedResponse> {
    const {
      model: { facts },
      encoder,
    } = this;
    if (request instanceof LargeRequest) {
      return new EncodedResponse(await encoder.answerDetokenize(request.bytes, caller));
    }
    checkLimits(request, facts);
    checkModelName(request.model, facts);
    checkTokenIds(request.tokenIds, facts.vocabularySize, 'token_ids');
    const options = { wholeText: true, includeSpecial: request.includeSpecialTokens };
    return { text: await encoder.detokenize(Uint32Array.from(request.tokenIds), options, caller) };
  }

  /** @throws RocmForgeError of limits, `MODEL_NOT_FOUND` */
  getModel(request: GetModelRequest): GetModelResponse {
    checkLimits(request, this.model.facts);
    checkModelName(request.model, this.model.facts);
    return { model: this.describe() };
  }

  /** The model, and whether it can run right now. */
  describe(): Model {
    const { name, architecture, parameters, contextLength, vocabularySize, hasChatTemplate } = this.model;
    const { ready, device, loaded } = this.availability();
    return {
      name,
      architecture,
      parameters: BigInt(parameters),
      contextLength,
      vocabularySize,
      hasChatTemplate,
      ...{ ready, device, loaded },
    };
  }

  /** See {@link Availability.refusal}. */
  get refusal(): RocmForgeError | undefined {
    return this.availability().refusal;
  }
}

/** Results of all promises; if one fails, the others' results are undone. */
async function allOrNone<T>(promises: readonly Promise<T>[], undo: (value: T) => void): Promise<readonly T[]> {
  const settled = await Promise.allSettled(promises);
  const failed = settled.find((one) => one.status === 'rejected');
  const values = settled.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  if (failed === undefined) return values;
  for (const value of values) undo(value);
  throw failed.reason;
}
