import { grouped, type OptionValues, option, preset } from '../../shared/option-table.js';
import { milliseconds, texts, wholeNumber } from '../../shared/option-types.js';
import type { OpenFiles } from './grpc/open-files.js';

/** Limits of connections and calls. */
export const CONNECTION_OPTIONS = grouped('Queue and connections:', {
  // Fewer where the process may open few files.
  maxConnections: preset('<count>', wholeNumber(1), 1024, 'open connections per API'),
  maxStreamsPerConnection: preset('<count>', wholeNumber(1), 100, 'concurrent calls per gRPC connection'),
  maxConnectionAgeMs: preset(
    '<ms>',
    milliseconds,
    3_600_000,
    'age (ms, ±10 %) at which a connection stops accepting calls, so that load balancers spread clients again',
  ),
  maxConnectionIdleMs: preset(
    '<ms>',
    milliseconds,
    600_000,
    'time (ms) without a call after which a connection is closed',
  ),
  keepaliveMs: preset('<ms>', milliseconds, 60_000, 'interval (ms) of keepalive pings'),
});

/** Callers of the HTTP API. */
export const HTTP_CALLER_OPTIONS = grouped('HTTP API:', {
  allowedHosts: option(
    '<names...>',
    texts,
    'host names accepted on a loopback address besides localhost, such as those that a proxy forwards',
  ),
  corsOrigins: option(
    '<origins...>',
    texts,
    'origins of web pages that may call the HTTP API (CORS), such as https://chat.example; localhost for pages of this machine, ' +
      '* for all (default: * if a token is required, else none)',
  ),
});

/** Limits of connections and calls, and those that no option of the command line sets. */
export interface ConnectionOptions extends OptionValues<typeof CONNECTION_OPTIONS> {
  /** The files that all servers of the process share; default: this server has them to itself. */
  readonly files?: OpenFiles | undefined;
  /** Time that a connection may take to prove that it speaks HTTP/2, a TLS handshake included; default 10 s. */
  readonly handshakeTimeoutMs?: number | undefined;
  /** Time that a request may take to arrive; default 30 s. */
  readonly requestTimeoutMs?: number | undefined;
  /**
   * Time that a response may make no progress to its reader; default 1 min. A running generation is cancelled by the engine
   * before that, which can say why; here a stream is only cut off.
   */
  readonly unreadTimeoutMs?: number | undefined;
}

/** Options of an HTTP server. */
export interface HttpOptions extends ConnectionOptions, OptionValues<typeof HTTP_CALLER_OPTIONS> {}
