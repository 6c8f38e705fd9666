import { createServer, type Server, type Socket } from 'node:net';
import { parseHostPort } from '../shared/address.js';
import { notListening } from '../shared/listen.js';
import { METRICS_CONNECTIONS } from './api/grpc/open-files.js';

/** Metrics that are served over HTTP. */
export interface MetricsServer {
  readonly port: number;
  close(): void;
}

/** Body that is served, and its type. */
export interface MetricsSource {
  readonly contentType: string;
  metrics(): Promise<string>;
}

/** States of the probes. */
export interface Probes {
  /** True if a restart would not help: `/healthz`. */
  isAlive(): boolean;
  /** True if requests are served: `/readyz`. */
  isReady(): boolean;
}

export interface MetricsLimits {
  /** From the first byte of a request to the last one of its answer. */
  readonly timeoutMs: number;
  /** Time for which one rendering is shared. */
  readonly sharedMs: number;
}

const DEFAULT_LIMITS: MetricsLimits = { timeoutMs: 5000, sharedMs: 1000 };
const MAX_HEAD_BYTES = 8192;
/** Form of an address for metrics, for the message about another form. */
export const METRICS_ADDRESS_FORM = 'use HOST:PORT for metrics, such as 127.0.0.1:9090';

/** Whoever asks while a rendering is made, or a while after, gets that one: it takes milliseconds in which no stream goes on. */
class SharedRendering {
  private latest: Promise<Buffer> | undefined;

  constructor(
    private readonly source: MetricsSource,
    private readonly sharedMs: number,
  ) {}

  get(): Promise<Buffer> {
    this.latest ??= this.render();
    return this.latest;
  }

  private async render(): Promise<Buffer> {
    try {
      return answer('200 OK', await this.source.metrics(), this.source.contentType);
    } catch (error) {
      return answer('500 Internal Server Error', `${(error as Error).message}\n`);
    } finally {
      setTimeout(() => {
        this.latest = undefined;
      }, this.sharedMs).unref();
    }
  }
}

/**
 * Serves `GET /metrics`, and the probes `/healthz` and `/readyz`, one request a connection; where there are too many, the oldest that
 * has asked nothing goes. No HTTP server of Node's: that one parses all requests of a packet before
 * it can be told that the first was enough, which held the event loop up for a second with 16 connections of 5,000 requests
 * each.
 *
 * @param address `HOST:PORT`
 * @throws RocmForgeError `INVALID_OPTION`, `ADDRESS_IN_USE`
 */
export async function serveMetrics(
  source: MetricsSource,
  address: string,
  probes: Probes,
  { timeoutMs, sharedMs }: MetricsLimits = DEFAULT_LIMITS,
): Promise<MetricsServer> {
  const { host, port } = parseHostPort(address, METRICS_ADDRESS_FORM);
  const rendering = new SharedRendering(source, sharedMs);
  const open = new Set<Socket>();
  /** Among these, connections without a request, the oldest first: they make room for others. */
  const silent = new Set<Socket>();
  const server = createServer({ noDelay: true }, (socket) => {
    open.add(socket);
    silent.add(socket);
    if (open.size > METRICS_CONNECTIONS) {
      const [oldest = socket] = silent;
      oldest.destroy();
      forget(oldest);
    }
    const timer = setTimeout(() => socket.destroy(), timeoutMs);
    socket.on('error', () => undefined);
    socket.once('close', () => {
      clearTimeout(timer);
      forget(socket);
    });
    // Bytes after the first request are read, so that its end is seen, and thrown away.
    readHead(socket, (head) => {
      silent.delete(socket);
      socket.resume();
      answerTo(head, rendering, probes).then((bytes) => {
        if (socket.destroyed) return;
        socket.end(bytes);
        socket.once('finish', () => socket.destroy());
      });
    });
  });
  const forget = (socket: Socket): void => {
    open.delete(socket);
    silent.delete(socket);
  };
  await listen(server, port, host, address);
  const bound = server.address();
  return {
    port: typeof bound === 'object' && bound !== null ? bound.port : 0,
    close: () => {
      server.close();
      for (const socket of open) socket.destroy();
    },
  };
}

/** Calls back once, with the first line of a request when its head is there as a whole. A head too long ends the connection. */
function readHead(socket: Socket, heard: (line: string) => void): void {
  let head = '';
  const read = (data: Buffer): void => {
    head += data.toString('latin1', 0, MAX_HEAD_BYTES);
    if (head.search(/\r?\n\r?\n/) < 0) {
      if (head.length >= MAX_HEAD_BYTES) socket.destroy();
      return;
    }
    socket.off('data', read);
    heard(head.slice(0, head.search(/\r?\n/)));
  };
  socket.on('data', read);
}

async function answerTo(line: string, rendering: SharedRendering, probes: Probes): Promise<Buffer> {
  const [, method, path] = /^([A-Z]+) ([^ ?]+)(?:\?[^ ]*)? HTTP\/1\.[01]$/.exec(line) ?? [];
  if (method === undefined) return answer('400 Bad Request', '');
  if (method === 'HEAD') return headOf(await answerTo(line.replace('HEAD', 'GET'), rendering, probes));
  if (method !== 'GET') return answer('405 Method Not Allowed', '');
  // Not whether an executor serves: who restarts a gateway whose executor loads loses every stream.
  if (path === '/healthz') return probed(probes.isAlive(), 'restart: the model file was written to');
  if (path === '/readyz') return probed(probes.isReady(), 'not ready');
  if (path !== '/metrics') return answer('404 Not Found', 'here are /metrics, /healthz and /readyz\n');
  return rendering.get();
}

const probed = (isWell: boolean, why: string): Buffer =>
  isWell ? answer('200 OK', 'ok\n') : answer('503 Service Unavailable', `${why}\n`);

const headOf = (bytes: Buffer): Buffer => bytes.subarray(0, bytes.indexOf('\r\n\r\n') + 4);

function answer(status: string, text: string, contentType = 'text/plain'): Buffer {
  const body = Buffer.from(text);
  const head = `HTTP/1.1 ${status}\r\nContent-Type: ${contentType}\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n`;
  return Buffer.concat([Buffer.from(head), body]);
}

function listen(server: Server, port: number, host: string, address: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (error) => reject(notListening(address, error)));
    server.listen(port, host, () => resolve());
  });
}
