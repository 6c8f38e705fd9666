import type { IncomingMessage, ServerResponse } from 'node:http';
import { TLSSocket } from 'node:tls';
import { asRocmForgeError, RocmForgeError } from '../../../shared/errors.js';
import { parseTraceparent } from '../../request/trace.js';
import type { Trust } from '../../trust/trust.js';
import { callController } from '../call-signal.js';
import { MIN_FRAME_CHARGE } from '../frame-charge.js';
import { nameOf } from '../grpc/connection-guard.js';
import type { WaitingCall } from '../inference.js';
import type { Bodies } from './bodies.js';
import { statusOf } from './errors.js';
import { type FieldNames, inTermsOf } from './field-names.js';
import { jsonInSlices } from './json-slices.js';
import type { ErrorForm } from './request.js';

/** Given where nobody asks for it: without one each answer's end would cost an exception with its stack. */
const DISCONNECTED = 'the client disconnected';

/** Headers of which every browser sends at least one with a request to another origin, and that no page can leave out. */
const BROWSER_HEADERS = ['origin', 'sec-fetch-site', 'sec-fetch-mode', 'referer'] as const;

const UNAUTHORIZED = 401;
export const JSON_TYPE = 'application/json; charset=utf-8';

/** Bytes and time for which a refused request is read on. */
const MOST_DRAINED_BYTES = 8 << 20;
const DRAIN_MS = 2000;

/** The name of a connection: its peer's address and port. */
export function connectionOf({ socket }: IncomingMessage): string {
  return nameOf(socket);
}

/** Context of an exchange. */
export interface ExchangeOptions {
  /** Its `x-request-id`. */
  readonly id: string;
  readonly bodies: Bodies;
  readonly trust: Trust;
  /** Error format of its protocol. */
  readonly errorForm: ErrorForm;
  /** Told of each error that is answered. */
  readonly onRefused: (error: RocmForgeError) => void;
  /** Told where it sends what no client does. */
  readonly onViolation: () => void;
}

/** One request and its answer. */
export class Exchange {
  private readonly peer: string;
  private readonly disconnected = callController();
  private identified: WaitingCall | undefined;
  private principal: string | undefined;
  /** True if the error of its response has been counted. */
  isRefused = false;
  /** The request's names of fields, once it was read. */
  fieldNames: FieldNames = {};

  constructor(
    readonly request: IncomingMessage,
    readonly response: ServerResponse,
    private readonly options: ExchangeOptions,
  ) {
    this.peer = options.trust.proxied.peerOf(connectionOf(request), request.headers);
    response.once('close', () => {
      if (!response.writableFinished) this.disconnected.abort(DISCONNECTED);
    });
  }

  get errorForm(): ErrorForm {
    return (error) => this.options.errorForm(inTermsOf(error, this.fieldNames));
  }

  /** True if the whole request is there: one without a body is complete from the start. */
  get hasArrived(): boolean {
    const { complete, headers } = this.request;
    const hasBody = Number(headers['content-length'] ?? 0) > 0 || headers['transfer-encoding'] !== undefined;
    return complete || !hasBody;
  }

  /** Aborted when nobody waits for the answer. */
  get signal(): AbortSignal {
    return this.disconnected.signal;
  }

  /** Whom the request is of: its principal, or its address where it was not identified. */
  get sender(): string {
    return this.principal ?? this.peer;
  }

  /** Caller of the request. @throws Error before it is identified */
  get client(): WaitingCall {
    if (this.identified === undefined) throw new Error('a request reached its handler without being identified');
    return this.identified;
  }

  /**
   * Identifies and counts the request by its headers, before its body is read.
   *
   * @param isGeneration see {@link Trust.limiter}
   * @throws RocmForgeError `CREDENTIAL_MISSING`, `CREDENTIAL_INVALID`, `CREDENTIAL_EXPIRED`, `RATE_LIMITED`
   */
  async identify(isGeneration: boolean): Promise<void> {
    const { request, peer, disconnected } = this;
    const { trust } = this.options;
    const { traceparent } = request.headers;
    const { socket } = request;
    const principal = await trust.identify({
      authorization: credentialsOf(request),
      certificate: () => (socket instanceof TLSSocket ? socket.getPeerCertificate() : undefined),
      peer,
    });
    this.principal = principal;
    trust.limiter.admit(principal, isGeneration);
    this.identified = {
      principal,
      peer,
      trace: typeof traceparent === 'string' ? parseTraceparent(traceparent) : undefined,
      deadline: Number.POSITIVE_INFINITY,
      httpRequestId: this.options.id,
      signal: disconnected.signal,
      cancel: () => disconnected.abort(DISCONNECTED),
    };
  }

  /**
   * The bytes of a JSON body.
   *
   * @throws RocmForgeError `CONTENT_TYPE_UNSUPPORTED` for another type from a browser, which sends JSON's to a stranger's server only
   *   after a preflight, so that no page can use a gateway that its reader can reach; for a compressed body; as {@link Bodies.read}
   */
  body(maxBytes?: number): Promise<Buffer> {
    const { 'content-type': type = '', 'content-encoding': encoding = 'identity' } = this.request.headers;
    const isJson = /^application\/json\s*(;|$)/i.test(type);
    if (!isJson && BROWSER_HEADERS.some((name) => this.request.headers[name] !== undefined)) {
      throw new RocmForgeError('CONTENT_TYPE_UNSUPPORTED', `the content type is "${type}"; send application/json`);
    }
    if (encoding.toLowerCase() !== 'identity') {
      const what = `the content encoding is "${encoding}"; send the body without compression`;
      throw new RocmForgeError('CONTENT_TYPE_UNSUPPORTED', what);
    }
    return this.bytes(maxBytes);
  }

  /** The bytes of a body of any type, see {@link Bodies.read}. */
  bytes(maxBytes?: number): Promise<Buffer> {
    const { request, response } = this;
    // A client that expects 100 Continue receives it when the body is wanted, and not before the caller is known.
    if (request.headers.expect !== undefined && !response.headersSent) response.writeContinue();
    return this.options.bodies.read(request, this.client.principal, maxBytes);
  }

  /** Answers with JSON. */
  json(body: unknown, status = 200): void {
    this.send(Buffer.from(JSON.stringify(body)), JSON_TYPE, status);
  }

  /** Answers with JSON that may be large: others are served while it is written. */
  async largeJson(body: unknown): Promise<void> {
    this.send(await jsonInSlices(body), JSON_TYPE);
  }

  /** Answers with bytes of JSON. */
  jsonBytes(bytes: Uint8Array): void {
    this.send(bytes, JSON_TYPE);
  }

  text(text: string, type: string): void {
    this.send(Buffer.from(text), type);
  }

  /** Answers with an error in the protocol's form. A request that has not arrived as a whole takes its connection along. */
  fail(thrown: unknown): void {
    const error = asRocmForgeError(thrown);
    const { response } = this;
    if (response.headersSent || response.destroyed) return;
    this.refused(error);
    const { status, body } = this.errorForm(error);
    this.json(body, status);
  }

  /** Counts an error that is answered otherwise than by {@link fail}, and says when to come again. */
  refused(thrown: unknown): void {
    const error = asRocmForgeError(thrown);
    const { response } = this;
    if (response.headersSent || response.destroyed) return;
    this.isRefused = true;
    this.options.onRefused(error);
    const retryDelayMs = Number(error.metadata.retry_delay_ms ?? 0);
    if (statusOf(error) === UNAUTHORIZED) response.setHeader('www-authenticate', 'Bearer');
    if (retryDelayMs > 0) response.setHeader('retry-after', Math.ceil(retryDelayMs / 1000));
    // OpenAI's and Anthropic's clients send every 5xx again unless this says otherwise.
    response.setHeader('x-should-retry', String(error.retryable));
  }

  /** Answers with a whole body. */
  send(bytes: Uint8Array, type: string, status = 200): void {
    const { request, response } = this;
    if (response.headersSent || response.destroyed) return;
    if (!this.hasArrived) response.setHeader('connection', 'close');
    response.writeHead(status, { 'content-type': type, 'content-length': bytes.length });
    if (request.method !== 'HEAD') response.write(bytes);
    this.end();
  }

  /**
   * Ends the answer. What still comes of a request that was refused is read for a while and thrown away: a connection that
   * is closed before would take the answer along.
   */
  private end(): void {
    const { request, response } = this;
    if (this.hasArrived) {
      response.end();
      return;
    }
    let drained = 0;
    const end = (): void => {
      clearTimeout(timer);
      request.off('data', count);
      response.end();
    };
    const count = (data: Buffer): void => {
      drained += Math.max(data.length, MIN_FRAME_CHARGE);
      if (drained <= MOST_DRAINED_BYTES) return;
      // Once: the rest of the packet is still to come.
      request.off('data', count);
      this.options.onViolation();
      request.socket.destroy();
    };
    const timer = setTimeout(end, DRAIN_MS);
    timer.unref();
    request.on('data', count);
    request.once('close', end);
  }
}

/** All that a client shows, as a bearer's or by Anthropic's header: of two that differ trust refuses both. */
function credentialsOf({ headersDistinct }: IncomingMessage): readonly string[] {
  const keys = headersDistinct['x-api-key'] ?? [];
  return [...new Set([...(headersDistinct.authorization ?? []), ...keys.map((key) => `Bearer ${key}`)])];
}
