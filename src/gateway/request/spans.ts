import { type Context, ROOT_CONTEXT, type Span, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import type { Caller } from './context.js';

/** Why a prompt is computed again. */
export type Interruption = 'preemption' | 'replay';

/**
 * Spans of one request, for whoever records traces (https://opentelemetry.io/docs/specs/otel/trace/api/): `generate`, from
 * its arrival to its end, and in it `queue` until it gets a place, `prefill` until its first token, `decode` until its
 * last; and `recompute` for each time that it lost what it had computed, from its new place to its next token.
 */
export class RequestSpans {
  private readonly context: Context;
  private phase: Span | undefined;
  private readonly again = new Map<number, Span>();

  private constructor(private readonly whole: Span) {
    this.context = trace.setSpan(ROOT_CONTEXT, whole);
    this.phase = this.begin('queue');
  }

  /** Undefined where nobody records: what is not there costs nothing. */
  static begin({ trace: parent, peer, principal }: Caller, model: string): RequestSpans | undefined {
    const within =
      parent === undefined
        ? ROOT_CONTEXT
        : trace.setSpanContext(ROOT_CONTEXT, {
            traceId: parent.traceId,
            spanId: parent.parentId,
            traceFlags: parent.flags,
            isRemote: true,
          });
    const attributes = {
      'gen_ai.operation.name': 'generate_content',
      'gen_ai.request.model': model,
      'client.address': peer,
      'enduser.id': principal,
    };
    const span = trace.getTracer('rocmforge').startSpan('generate', { kind: SpanKind.SERVER, attributes }, within);
    return span.isRecording() ? new RequestSpans(span) : undefined;
  }

  /** The request is read and its prompt encoded. */
  describe(id: string, promptTokens: number): void {
    this.whole.setAttributes({ 'rocmforge.request_id': id, 'gen_ai.usage.input_tokens': promptTokens });
  }

  /** A completion has a place among those that are computed. @param interruption why it had lost the one before */
  placed(index: number, interruption: Interruption | undefined): void {
    if (interruption !== undefined) {
      this.again.get(index)?.end();
      const span = this.begin('recompute');
      span.setAttributes({ 'rocmforge.interruption': interruption, 'rocmforge.completion': index });
      this.again.set(index, span);
    } else if (index === 0) this.next('prefill');
  }

  /** Tokens of a completion have come. @param isFirst whether none of the request came before */
  token(index: number, isFirst: boolean): void {
    if (isFirst) this.next('decode');
    this.again.get(index)?.end();
    this.again.delete(index);
  }

  /** @param outcome finish reason, error reason or `cancelled` */
  end(outcome: string, tokens: number, isError: boolean): void {
    for (const span of this.again.values()) span.end();
    this.phase?.end();
    this.phase = undefined;
    this.whole.setAttributes({ 'gen_ai.usage.output_tokens': tokens, 'rocmforge.outcome': outcome });
    if (isError) this.whole.setStatus({ code: SpanStatusCode.ERROR, message: outcome });
    this.whole.end();
  }

  private next(name: string): void {
    this.phase?.end();
    this.phase = this.begin(name);
  }

  private begin(name: string): Span {
    return trace.getTracer('rocmforge').startSpan(name, {}, this.context);
  }
}
