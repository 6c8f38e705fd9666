import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

/** Answers a chat request in the server's place. */
export type ScriptedAnswer = (body: Record<string, unknown>, response: ServerResponse) => void;

/** Path for reports about the content security policy. */
const VIOLATIONS = '/policy-violations';

/** A proxy in front of a gateway: serves it under a path prefix, records requests, and can lose the network. */
export interface PageProxy {
  readonly url: string;
  /** Bodies of chat requests, as text. */
  readonly bodies: string[];
  /** Authorization headers of chat requests. */
  readonly authorizations: (string | undefined)[];
  /** Answers chats in the gateway's place; absent: the gateway does. */
  answer: ScriptedAnswer | undefined;
  /**
   * True: the page's policy is only reported, so that it changes nothing and what it would have refused is in `violations`.
   */
  reportsOnly: boolean;
  /** Reports of browsers about the policy. */
  readonly violations: string[];
  /** Cuts all connections, and refuses new ones until it is false again. */
  isOffline: boolean;
  stop(): Promise<void>;
}

/** @param folders below which the gateway is served, too */
export async function startPageProxy(
  target: string,
  prefix = '/',
  folders: readonly string[] = [],
): Promise<PageProxy> {
  const sockets = new Set<Socket>();
  let isOffline = false;
  const bodies: string[] = [];
  const authorizations: (string | undefined)[] = [];
  const violations: string[] = [];
  const handle = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const url = incoming.url ?? '/';
    if (!url.startsWith(prefix)) {
      response.writeHead(404).end();
      return;
    }
    const folder = folders.find((one) => url.startsWith(one)) ?? prefix;
    const path = `/${url.slice(folder.length)}`;
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    if (path === VIOLATIONS) {
      violations.push(body.toString());
      response.writeHead(204).end();
      return;
    }
    if (path === '/v1/chat/completions') {
      bodies.push(body.toString());
      authorizations.push(incoming.headers.authorization);
      if (proxy.answer !== undefined) {
        proxy.answer(JSON.parse(body.toString()), response);
        return;
      }
    }
    const { host, origin, ...headers } = incoming.headers;
    const outgoing = request(`${target}${path}`, { method: incoming.method, headers }, (answer) => {
      const { 'content-security-policy': policy, ...others } = answer.headers;
      const reported = {
        'content-security-policy-report-only': `${policy}; report-uri ${prefix}${VIOLATIONS.slice(1)}`,
      };
      response.writeHead(
        answer.statusCode ?? 500,
        proxy.reportsOnly && policy !== undefined ? { ...others, ...reported } : answer.headers,
      );
      answer.pipe(response);
      response.once('close', () => answer.destroy());
    });
    outgoing.on('error', () => response.destroy());
    outgoing.end(body);
  };
  const server = createServer((incoming, response) => void handle(incoming, response).catch(() => response.destroy()));
  server.on('connection', (socket) => {
    if (isOffline) socket.destroy();
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    socket.on('error', () => undefined);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const proxy: PageProxy = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${prefix}`,
    bodies,
    authorizations,
    answer: undefined,
    reportsOnly: false,
    violations,
    get isOffline() {
      return isOffline;
    },
    set isOffline(value: boolean) {
      isOffline = value;
      if (value) for (const socket of sockets) socket.destroy();
    },
    stop: () => {
      for (const socket of sockets) socket.destroy();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
  return proxy;
}

/** Event of a chat's stream. */
export const chunkOf = (delta: object, more: object = {}): string =>
  `data: ${JSON.stringify({ id: 'chatcmpl-1', object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason: null }], ...more })}\n\n`;

const usageOf = (tokens: number) => ({ prompt_tokens: 5, completion_tokens: tokens, total_tokens: 5 + tokens });

/** Streams texts as an answer, each after a delay (ms), and ends it. */
export function scripted(texts: readonly string[], delayMs = 0, finish = 'stop'): ScriptedAnswer {
  return async (_body, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const began = performance.now();
    for (const [i, content] of texts.entries()) {
      const due = began + i * delayMs - performance.now();
      if (due > 0) await new Promise((resolve) => setTimeout(resolve, due));
      if (response.destroyed) return;
      response.write(chunkOf({ content }, { usage: usageOf(i + 1) }));
    }
    end(response, texts.length, finish);
  };
}

/** Streams deltas at once, and ends the answer. */
export function scriptedDeltas(deltas: readonly object[], finish = 'stop'): ScriptedAnswer {
  return (_body, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const [i, delta] of deltas.entries()) response.write(chunkOf(delta, { usage: usageOf(i + 1) }));
    end(response, deltas.length, finish);
  };
}

function end(response: ServerResponse, tokens: number, finish: string): void {
  const last = { choices: [{ index: 0, delta: {}, finish_reason: finish }] };
  const usage = { choices: [], usage: usageOf(tokens), timings: { predicted_per_second: 123.4 } };
  for (const event of [last, usage]) response.write(`data: ${JSON.stringify(event)}\n\n`);
  response.end('data: [DONE]\n\n');
}
