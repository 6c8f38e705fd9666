import type { IncomingMessage, ServerResponse } from 'node:http';
import { TLSSocket } from 'node:tls';
import { asRocmForgeError, RocmForgeError } from '../../../shared/errors.js';
import { parseTraceparent } from '../../request/trace.js';
import type { Trust } from '../../trust/trust.js';
import type { WaitingClient } from '../inference.js';
import { peerOf } from '../peer.js';
import type { Bodies } from './bodies.js';
import type { ErrorForm } from './request.js';

/** Given where nobody asks for it: without one each answer's end would cost an exception with its stack. */
const GONE = 'nobody waits for the answer';

const UNAUTHORIZED = 401;

/** The name of a connection: its peer's address and port. */
export function connectionOf({ socket }: IncomingMessage): string {
  const { remoteAddress = '', remotePort } = socket;
  return remotePort === undefined ? remoteAddress : `${remoteAddress}:${remotePort}`;
}

/** What an exchange is part of. */
export interface ExchangeOptions {
  readonly bodies: Bodies;
  readonly trust: Trust;
  /** How its protocol tells errors. */
  readonly errorForm: ErrorForm;
}

/** One request and its answer. */
export class Exchange {
  private readonly peer: string;
  private readonly gone = new AbortController();
  private identified: WaitingClient | undefined;

  constructor(
    readonly request: IncomingMessage,
    readonly response: ServerResponse,
    private readonly options: ExchangeOptions,
  ) {
    this.peer = peerOf({ getPeer: () => connectionOf(request) });
    response.once('close', () => {
      if (!response.writableFinished) this.gone.abort(GONE);
    });
  }

  get errorForm(): ErrorForm {
    return this.options.errorForm;
  }

  /** Who asks. @throws Error where nobody has identified it */
  get client(): WaitingClient {
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
    const { request, peer, gone } = this;
    const { trust } = this.options;
    const { authorization, traceparent } = request.headers;
    const { socket } = request;
    const principal = await trust.identify({
      authorization: authorization === undefined ? [] : [authorization],
      certificate: () => (socket instanceof TLSSocket ? socket.getPeerCertificate() : undefined),
      peer,
    });
    trust.limiter.admit(principal, isGeneration);
    this.identified = {
      principal,
      peer,
      trace: typeof traceparent === 'string' ? parseTraceparent(traceparent) : undefined,
      deadline: Number.POSITIVE_INFINITY,
      signal: gone.signal,
      giveUp: () => gone.abort(GONE),
    };
  }

  /**
   * The bytes of a JSON body.
   *
   * @throws RocmForgeError `CONTENT_TYPE_UNSUPPORTED` for another type: a browser sends none of JSON's to a stranger's server without
   *   asking, so that no page can use a gateway that its reader can reach; as {@link Bodies.read}
   */
  body(): Promise<Buffer> {
    const type = this.request.headers['content-type'] ?? '';
    if (!/^application\/json\s*(;|$)/i.test(type)) {
      throw new RocmForgeError('CONTENT_TYPE_UNSUPPORTED', `the content type is "${type}"; send application/json`);
    }
    return this.options.bodies.read(this.request, this.client.principal);
  }

  /** Answers with JSON. */
  json(body: unknown, status = 200): void {
    this.text(JSON.stringify(body), 'application/json; charset=utf-8', status);
  }

  text(text: string, type: string, status = 200): void {
    const { response } = this;
    if (response.headersSent || response.destroyed) return;
    const bytes = Buffer.from(text);
    response.writeHead(status, { 'content-type': type, 'content-length': bytes.length });
    response.end(bytes);
  }

  /** Answers with an error in the protocol's form. A request that has not arrived as a whole takes its connection along. */
  fail(thrown: unknown): void {
    const error = asRocmForgeError(thrown);
    const { status, body } = this.errorForm(error);
    const { request, response } = this;
    if (response.headersSent || response.destroyed) return;
    const retryDelayMs = Number(error.metadata.retry_delay_ms ?? 0);
    if (status === UNAUTHORIZED) response.setHeader('www-authenticate', 'Bearer');
    if (retryDelayMs > 0) response.setHeader('retry-after', Math.ceil(retryDelayMs / 1000));
    if (!request.complete) response.setHeader('connection', 'close');
    this.json(body, status);
  }
}
