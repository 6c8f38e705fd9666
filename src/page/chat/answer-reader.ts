import { type ErrorBody, errorOf } from '../server/server-error.js';
import type { AnswerStats, Message, RecoveryMark, TokenChoice, ToolCall } from './conversation.js';

interface Delta {
  readonly content?: string | null;
  readonly reasoning_content?: string | null;
  readonly tool_calls?: readonly {
    readonly index: number;
    readonly id?: string;
    readonly function?: { readonly name?: string; readonly arguments?: string };
  }[];
}

interface Logprob {
  readonly token: string;
  readonly logprob: number;
  readonly top_logprobs?: readonly { readonly token: string; readonly logprob: number }[];
}

interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly prompt_tokens_details?: { readonly cached_tokens?: number };
  readonly completion_tokens_details?: {
    readonly reasoning_tokens?: number;
    readonly accepted_prediction_tokens?: number;
    readonly rejected_prediction_tokens?: number;
  };
}

/** An event of a chat's stream. */
export interface ChatEvent {
  readonly error?: ErrorBody;
  readonly choices?: readonly {
    readonly delta?: Delta;
    readonly finish_reason?: string | null;
    readonly logprobs?: { readonly content?: readonly Logprob[] | null } | null;
  }[];
  readonly usage?: Usage | null;
  readonly timings?: { readonly predicted_per_second?: number };
  readonly recovery?: { readonly state: 'lost' } | { readonly state: 'resumed'; readonly ms: number };
}

/** Reads a stream into a message. */
export class AnswerReader {
  private content: string;
  private reasoning: string;
  private readonly toolCalls: ToolCall[];
  private readonly marks: RecoveryMark[];
  private readonly choices: TokenChoice[];
  private finish: string | undefined;
  private usage: Usage | undefined;
  private rate: number | undefined;
  private firstAt: number | undefined;
  private lastAt = 0;
  /** Tokens of usage when the first text came. */
  private firstTokens = 0;

  /**
   * @param message the message that is begun or continued
   * @param began   time of the request, ms of `performance.now`
   */
  constructor(
    private readonly message: Message,
    private readonly began: number,
  ) {
    this.content = message.content;
    this.reasoning = message.reasoning;
    this.toolCalls = [...message.toolCalls];
    this.marks = [...message.marks];
    this.choices = [...(message.choices ?? [])];
  }

  /** @throws ServerError for an error event */
  read({ error, choices, usage, timings, recovery }: ChatEvent, now: number): void {
    if (error) throw errorOf(error);
    if (usage) this.usage = usage;
    if (recovery !== undefined) this.recovered(recovery);
    const [choice] = choices ?? [];
    if (choice?.delta !== undefined) this.append(choice.delta, now);
    for (const { token, logprob, top_logprobs } of choice?.logprobs?.content ?? []) {
      this.choices.push({ text: token, logprob, top: (top_logprobs ?? []).map((one) => [one.token, one.logprob]) });
    }
    if (choice?.finish_reason) this.finish = choice.finish_reason;
    if (timings?.predicted_per_second !== undefined) this.rate = timings.predicted_per_second;
  }

  private append({ content, reasoning_content: reasoning, tool_calls: calls }: Delta, now: number): void {
    if (!content && !reasoning && !calls?.length) return;
    if (this.firstAt === undefined) {
      this.firstAt = now;
      this.firstTokens = this.usage?.completion_tokens ?? 0;
    }
    this.lastAt = now;
    this.content += content ?? '';
    this.reasoning += reasoning ?? '';
    for (const { index, id, function: called } of calls ?? []) {
      const before = this.toolCalls[index] ?? { id: '', name: '', args: '' };
      this.toolCalls[index] = {
        id: id ?? before.id,
        name: before.name + (called?.name ?? ''),
        args: before.args + (called?.arguments ?? ''),
      };
    }
  }

  private recovered(recovery: NonNullable<ChatEvent['recovery']>): void {
    if (recovery.state === 'lost') {
      const part = this.content === '' && this.reasoning !== '' ? 'reasoning' : 'content';
      this.marks.push({ part, at: this[part].length });
      return;
    }
    const last = this.marks.pop();
    if (last !== undefined) this.marks.push({ ...last, ms: recovery.ms });
  }

  /** The message as far as it has come. */
  snapshot(state: Message['state'], error?: string): Message {
    return {
      ...this.message,
      content: this.content,
      reasoning: this.reasoning,
      toolCalls: [...this.toolCalls],
      marks: [...this.marks],
      choices: this.choices.length === 0 ? undefined : [...this.choices],
      finish: this.finish,
      stats: this.stats(),
      state,
      error,
    };
  }

  private stats(): AnswerStats | undefined {
    const { usage, firstAt, lastAt, began } = this;
    if (usage === undefined || firstAt === undefined) return undefined;
    const { completion_tokens_details: details = {}, prompt_tokens_details: prompt = {} } = usage;
    const accepted = details.accepted_prediction_tokens ?? 0;
    const seconds = (lastAt - firstAt) / 1000;
    const seen = usage.completion_tokens - this.firstTokens;
    return {
      promptTokens: usage.prompt_tokens,
      cachedTokens: prompt.cached_tokens ?? 0,
      tokens: usage.completion_tokens,
      reasoningTokens: details.reasoning_tokens ?? 0,
      // The server's rate comes with the end of the stream.
      tokensPerSecond: this.rate ?? (seconds > 0 ? seen / seconds : 0),
      firstTokenMs: firstAt - began,
      drafted: accepted + (details.rejected_prediction_tokens ?? 0),
      accepted,
    };
  }
}
