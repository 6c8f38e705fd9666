import { randomUUID } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import { asRocmForgeError } from '../../shared/errors.js';
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
import { ReasoningBudgets } from '../matching/reasoning-budget.js';
import type { RequestContext } from '../request/context.js';
import type { EncodeService } from '../request/encoding/encode-service.js';
import type { OpenedGeneration } from '../request/encoding/text-jobs.js';
import type { CallContext } from '../request/encoding/text-threads.js';
import type { GenerationParameters, GenerationSink } from '../request/generation.js';
import { checkLimits, checkModelName } from '../request/limits.js';
import { openConstraints } from '../request/opened-constraints.js';
import type { RequestRunner } from '../request/runner.js';
import type { ServedModel } from '../request/served-model.js';
import { RequestSpans } from '../request/spans.js';
import { checkGeneration, generationParameters } from '../request/validate.js';
import { runWithin } from '../request/within-streams.js';
import { checkTokenIds } from '../tokenizer/prompt.js';
import type { Tokenizer } from '../tokenizer/tokenizer.js';
import { collectResponse } from './collect-response.js';
import { FlushScheduler } from './flush-scheduler.js';
import { generateComplete, promptLogprobs, tokenLogprobs } from './messages.js';
import { CONTROL_MESSAGE_BYTES, INLINE_MESSAGE_BYTES, type Method, methodBytes } from './method-bytes.js';
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

/** A client that waits for an answer, and how it is told not to. */
export interface WaitingCall extends CallContext {
  /** Nobody need compute more for it: its signal aborts. */
  cancel(): void;
}

export interface InferenceOptions {
  /** Tokens of a completion that a stream gets together, after its first; default 1. */
  readonly streamInterval?: number | undefined;
  /** True if draft tokens are used; default: false. */
  readonly speculates?: boolean;
  /** And by the model's prediction block. */
  readonly predicts?: boolean;
}

/** A request that can run. */
interface OpenedRequest {
  readonly parameters: GenerationParameters;
  readonly context: RequestContext;
  /** The prompt's text, where the answer has it in a field of its own. */
  readonly toldPrompt: string | undefined;
}

/** The public API over one model, as messages: what every server serves, each in its protocol. */
export class Inference {
  private readonly rounds = new FlushScheduler();
  private readonly budgets: ReasoningBudgets;

  constructor(
    private readonly model: ServedModel,
    private readonly encoder: EncodeService,
    private readonly runner: RequestRunner,
    private readonly matchers: Matchers,
    private readonly readiness: () => Readiness,
    private readonly options: InferenceOptions = {},
  ) {
    this.budgets = new ReasoningBudgets(model.tokenizer);
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
    const opened = await this.open(message, client, { isUnary: false });
    if (opened === undefined) return;
    const { parameters, context, toldPrompt } = opened;
    answer.begin?.(parameters.promptIds);
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
    const running = this.runner.run(parameters, sink, client.signal, context);
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
    const opened = await this.open(message, client, { isUnary: true });
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
    const opened = await allOrNone(
      messages.map((message) => this.open(message, client, { isUnary: true })),
      closeConstraints,
    );
    let begun = 0;
    // Each prompt listens.
    setMaxListeners(0, client.signal);
    try {
      const within = { most: messages.length, hasFree: () => this.runner.hasFreeStream(client) };
      const responses = await runWithin(opened, within, async (one, i) => {
        begun = i + 1;
        return one && this.collect(one, client, onToken);
      });
      const whole = responses.filter((response) => response !== undefined);
      return whole.length === messages.length ? whole : undefined;
    } catch (error) {
      client.cancel();
      for (const one of opened.slice(begun)) closeConstraints(one);
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

  /** Checks, encodes, and for a large request decodes. Undefined: its client has gone meanwhile. */
  private async open(
    message: GenerateStreamRequest | LargeRequest,
    caller: CallContext,
    { isUnary }: { readonly isUnary: boolean },
  ): Promise<OpenedRequest | undefined> {
    const arrivedAt = performance.now();
    const spans = RequestSpans.begin(caller, this.model.name);
    try {
      return await this.openWith(message, caller, { isUnary, spans, arrivedAt });
    } catch (error) {
      if (caller.signal.aborted) {
        spans?.end('cancelled', 0, false);
        return undefined;
      }
      spans?.end(asRocmForgeError(error).reason, 0, true);
      throw error;
    }
  }

  private async openWith(
    message: GenerateStreamRequest | LargeRequest,
    caller: CallContext,
    { isUnary, spans, arrivedAt }: { readonly isUnary: boolean } & Pick<RequestContext, 'spans' | 'arrivedAt'>,
  ): Promise<OpenedRequest | undefined> {
    const {
      model: { facts, tokenizer },
      encoder,
    } = this;
    const { request, inputField, promptIds } =
      message instanceof LargeRequest
        ? await encoder.openGeneration(message.bytes, caller)
        : await this.openSmall(message, caller);
    const { output } = request;
    const echoed = { wholeText: true, includeSpecial: output?.includeSpecialTokens ?? false };
    const promptText = output?.echo ? await encoder.detokenize(promptIds, echoed, caller) : undefined;
    // As the model reads it: behind a special token the first space is shown.
    const isPlain = promptIds[0] === undefined || tokenizer.isRendered(promptIds[0]);
    const shown = { wholeText: isPlain, includeSpecial: true };
    const toldPrompt = output?.promptText ? await encoder.detokenize(promptIds, shown, caller) : undefined;
    const { signal, principal, peer, trace, deadline, httpRequestId } = caller;
    const id = request.requestId || randomUUID();
    spans?.describe(id, promptIds.length);
    const context = { principal, peer, trace, deadline, httpRequestId, id, spans, arrivedAt };
    if (signal.aborted) {
      spans?.end('cancelled', 0, false);
      this.runner.notRun({ promptIds }, context, 'cancelled');
      return undefined;
    }
    const parameters = generationParameters(request, {
      ...{ facts, tokenizer, promptIds, inputField, promptText, isUnary },
    });
    try {
      const { matchers, budgets } = this;
      const constraints = await openConstraints(request, parameters, { facts, matchers, budgets }, caller);
      const { speculates = false, predicts = false } = this.options;
      return { parameters: { ...parameters, constraints, speculates, predicts }, context, toldPrompt };
    } catch (error) {
      this.runner.notRun(parameters, context, signal.aborted ? 'cancelled' : asRocmForgeError(error).reason);
      throw error;
    }
  }

  private async openSmall(request: GenerateStreamRequest, caller: CallContext): Promise<OpenedGeneration> {
    checkGeneration(request, this.model.facts);
    const promptIds = await this.encoder.encode(request.input, caller);
    return { request, inputField: request.input?.$case ?? 'input', promptIds };
  }

  /** The model, and whether it can run right now. */
  describe(): Model {
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
}

/** Gives back the constraints of a request that does not run. */
function closeConstraints(request: OpenedRequest | undefined): void {
  for (const constraint of request?.parameters.constraints ?? []) constraint.close();
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
