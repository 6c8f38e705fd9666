import { randomUUID } from 'node:crypto';
import { asRocmForgeError } from '../../shared/errors.js';
import type { GenerateStreamRequest } from '../../shared/generated/rocmforge/v1/inference.js';
import { LargeRequest } from '../../shared/grpc/strict.js';
import type { Matchers, OpenedConstraints } from '../matching/matchers.js';
import { ReasoningBudgets } from '../matching/reasoning-budget.js';
import { leftAs, type RequestContext } from '../request/context.js';
import type { EncodeService } from '../request/encoding/encode-service.js';
import type { OpenedGeneration } from '../request/encoding/text-jobs.js';
import type { CallContext } from '../request/encoding/text-threads.js';
import type { GenerationParameters } from '../request/generation.js';
import { closeAll, openConstraints } from '../request/opened-constraints.js';
import type { RequestRunner } from '../request/runner.js';
import type { ServedModel } from '../request/served-model.js';
import { RequestSpans } from '../request/spans.js';
import { checkGeneration, generationParameters } from '../request/validate.js';

export interface RequestOpenerOptions {
  /** True if draft tokens are used; default: false. */
  readonly speculates?: boolean;
  /** And by the model's prediction block. */
  readonly predicts?: boolean;
}

interface OpeningOptions {
  readonly isUnary: boolean;
  /** True if the first masks must be known; default: the prompt can be computed before. */
  readonly awaitsMasks?: boolean;
}

/** A request with its prompt as ids. */
interface EncodedRequest extends OpenedGeneration {
  /** The prompt's text, where the output begins with it. */
  readonly promptText: string | undefined;
  /** As {@link OpenedRequest.toldPrompt}. */
  readonly toldPrompt: string | undefined;
}

/** A request that can run. */
export interface OpenedRequest {
  readonly parameters: GenerationParameters;
  readonly context: RequestContext;
  /** The prompt's text, where the response has it in a field of its own. */
  readonly toldPrompt: string | undefined;
}

/** Turns messages into generations that can run. */
export class RequestOpener {
  private readonly budgets: ReasoningBudgets;

  constructor(
    private readonly model: Pick<ServedModel, 'name' | 'facts' | 'tokenizer'>,
    private readonly encoder: Pick<EncodeService, 'encode' | 'openGeneration' | 'detokenize'>,
    private readonly runner: Pick<RequestRunner, 'notRun'>,
    private readonly matchers: Pick<Matchers, 'begin'>,
    private readonly options: RequestOpenerOptions = {},
  ) {
    this.budgets = new ReasoningBudgets(model.tokenizer);
  }

  /**
   * Checks a request, encodes its prompt and has a thread compile its grammar, see `opened` of {@link GenerationParameters}.
   *
   * @returns undefined where its client has gone meanwhile, which is counted and logged
   * @throws RocmForgeError why it cannot run
   */
  async open(
    message: GenerateStreamRequest | LargeRequest,
    caller: CallContext,
    options: OpeningOptions,
  ): Promise<OpenedRequest | undefined> {
    const arrivedAt = performance.now();
    const spans = RequestSpans.begin(caller, this.model.name);
    try {
      return await this.openWith(message, caller, { ...options, spans, arrivedAt });
    } catch (error) {
      if (caller.signal.aborted) {
        spans?.end(leftAs(caller), 0, false);
        return undefined;
      }
      spans?.end(asRocmForgeError(error).reason, 0, true);
      throw error;
    }
  }

  private async openWith(
    message: GenerateStreamRequest | LargeRequest,
    caller: CallContext,
    { isUnary, awaitsMasks, spans, arrivedAt }: OpeningOptions & Pick<RequestContext, 'spans' | 'arrivedAt'>,
  ): Promise<OpenedRequest | undefined> {
    const { facts, tokenizer } = this.model;
    const { signal, principal, peer, trace, deadline, httpRequestId } = caller;
    const encoded = await this.encodeRequest(message, caller).catch((error: unknown) => {
      if (signal.aborted) return undefined;
      throw error;
    });
    const named = encoded?.request ?? (message instanceof LargeRequest ? undefined : message);
    const id = named?.requestId || randomUUID();
    const context = { principal, peer, trace, deadline, httpRequestId, id, spans, arrivedAt };
    spans?.describe(id, encoded?.promptIds.length ?? 0);
    if (encoded === undefined || signal.aborted) {
      spans?.end(leftAs(context), 0, false);
      this.runner.notRun({ promptIds: encoded?.promptIds ?? new Uint32Array() }, context, leftAs(context));
      return undefined;
    }
    const { request, inputField, promptIds, promptText, toldPrompt } = encoded;
    const parameters = generationParameters(request, {
      ...{ facts, tokenizer, promptIds, inputField, promptText, isUnary },
    });
    let begun: OpenedConstraints | undefined;
    try {
      const { matchers, budgets } = this;
      begun = await openConstraints(request, parameters, { facts, matchers, budgets }, caller);
      if (awaitsMasks) await begun?.opened;
      const { speculates = false, predicts = false } = this.options;
      return { parameters: { ...parameters, ...begun, speculates, predicts }, context, toldPrompt };
    } catch (error) {
      closeAll(begun);
      this.runner.notRun(parameters, context, signal.aborted ? leftAs(context) : asRocmForgeError(error).reason);
      throw error;
    }
  }

  /** Encodes the prompt, and decodes it where the response shall have its text. */
  private async encodeRequest(
    message: GenerateStreamRequest | LargeRequest,
    caller: CallContext,
  ): Promise<EncodedRequest> {
    const {
      model: { tokenizer },
      encoder,
    } = this;
    const opened =
      message instanceof LargeRequest
        ? await encoder.openGeneration(message.bytes, caller)
        : await this.openSmall(message, caller);
    const { promptIds } = opened;
    const { output } = opened.request;
    const echoed = { wholeText: true, includeSpecial: output?.includeSpecialTokens ?? false };
    const promptText = output?.echo ? await encoder.detokenize(promptIds, echoed, caller) : undefined;
    // As the model reads it: behind a special token the first space is shown.
    const isPlain = promptIds[0] === undefined || tokenizer.isRendered(promptIds[0]);
    const shown = { wholeText: isPlain, includeSpecial: true };
    const toldPrompt = output?.promptText ? await encoder.detokenize(promptIds, shown, caller) : undefined;
    return { ...opened, promptText, toldPrompt };
  }

  private async openSmall(request: GenerateStreamRequest, caller: CallContext): Promise<OpenedGeneration> {
    checkGeneration(request, this.model.facts);
    const promptIds = await this.encoder.encode(request.input, caller);
    return { request, inputField: request.input?.$case ?? 'input', promptIds };
  }
}
