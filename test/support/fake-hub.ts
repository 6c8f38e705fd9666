import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A file that the hub offers; large ones lie at another address, as on the real hub. */
export interface OfferedFile {
  readonly path: string;
  readonly content: Buffer;
  /** Told in place of its own. */
  readonly sha256?: string;
  readonly isSmall?: boolean;
}

/** Request to one of the hub's two addresses. */
export interface HubRequest {
  readonly at: 'hub' | 'storage';
  readonly path: string;
  readonly range: string | undefined;
  readonly authorization: string | undefined;
}

/** Answers a request in the hub's place; false: the hub answers as it would. */
export type Interference = (request: HubRequest, response: ServerResponse) => boolean;

export const COMMIT = 'c0ffee'.padEnd(40, '0');
const REPOSITORY = 'acme/fox-GGUF';

/** A hub on loopback that speaks what Hugging Face's does, as far as models are pulled from it, and misbehaves when told to. */
export class FakeHub {
  readonly requests: HubRequest[] = [];
  /** Files of a listing's page. */
  pageSize = 1000;
  interfere: Interference = () => false;
  /** Called after each piece of a file was given to the system. @returns whether to send no more, and leave the connection open */
  afterBytes: (sent: number) => boolean = () => false;
  bytesSent = 0;
  /** True if ranges are answered with ranges. */
  knowsRanges = true;
  private readonly servers: Server[] = [];

  private constructor(public files: readonly OfferedFile[]) {}

  static async start(files: readonly OfferedFile[]): Promise<FakeHub> {
    const hub = new FakeHub(files);
    for (const at of ['hub', 'storage'] as const) {
      const server = createServer((request, response) => hub.answer(at, request, response));
      hub.servers.push(server);
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    }
    return hub;
  }

  get endpoint(): string {
    return addressOf(this.servers[0] as Server);
  }

  get storage(): string {
    return addressOf(this.servers[1] as Server);
  }

  /** Requests for contents alone. */
  get contentRequests(): readonly HubRequest[] {
    return this.requests.filter(({ at }) => at === 'storage');
  }

  /** Ends the connections that contents are sent on. */
  breakOff(): void {
    this.servers[1]?.closeAllConnections();
  }

  close(): void {
    for (const server of this.servers) {
      server.closeAllConnections();
      server.close();
    }
  }

  private answer(at: 'hub' | 'storage', request: IncomingMessage, response: ServerResponse): void {
    const path = request.url ?? '';
    const { range, authorization } = request.headers;
    const asked: HubRequest = { at, path, range, authorization };
    this.requests.push(asked);
    response.on('error', () => undefined);
    if (this.interfere(asked, response)) return;
    const url = new URL(path, 'http://hub');
    if (at === 'storage') {
      this.content(decodeURIComponent(url.pathname.slice(1)), range, response);
      return;
    }
    if (url.pathname.startsWith(`/api/models/${REPOSITORY}/revision/`)) {
      json(response, { _id: '1', id: REPOSITORY, sha: COMMIT });
      return;
    }
    if (url.pathname === `/api/models/${REPOSITORY}/tree/${COMMIT}`) {
      this.page(url, response);
      return;
    }
    const resolved = `/${REPOSITORY}/resolve/${COMMIT}/`;
    if (url.pathname.startsWith(resolved)) {
      const location = `${this.storage}/${url.pathname.slice(resolved.length)}`;
      response.writeHead(302, { location, 'x-repo-commit': COMMIT }).end();
      return;
    }
    response.writeHead(404, { 'x-error-code': 'RepoNotFound' }).end();
  }

  private page(url: URL, response: ServerResponse): void {
    const from = Number(url.searchParams.get('cursor') ?? 0);
    const entries = this.files.slice(from, from + this.pageSize).map((file) => ({
      type: 'file',
      path: file.path,
      size: file.content.length,
      oid: gitId(file.content),
      ...(!file.isSmall && {
        lfs: { oid: file.sha256 ?? sha256(file.content), size: file.content.length, pointerSize: 134 },
      }),
    }));
    const next = from + this.pageSize;
    if (next < this.files.length) {
      url.searchParams.set('cursor', String(next));
      response.setHeader('link', `<${this.endpoint}${url.pathname}${url.search}>; rel="next"`);
    }
    json(response, entries);
  }

  private content(path: string, range: string | undefined, response: ServerResponse): void {
    const content = this.files.find((file) => file.path === path)?.content;
    if (content === undefined) {
      response.writeHead(404).end();
      return;
    }
    const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(range ?? '') ?? [];
    if (first === undefined || !this.knowsRanges) {
      response.writeHead(200, { 'content-length': content.length });
      this.send(content, response);
      return;
    }
    const part = content.subarray(Number(first), Number(last) + 1);
    response.writeHead(206, {
      'content-length': part.length,
      'content-range': `bytes ${first}-${last}/${content.length}`,
    });
    this.send(part, response);
  }

  /** In small pieces, so that what is done in between happens at any of them. */
  private send(content: Buffer, response: ServerResponse, offset = 0): void {
    if (response.destroyed) return;
    if (offset >= content.length) {
      response.end();
      return;
    }
    const piece = content.subarray(offset, offset + 4096);
    response.write(piece, () => {
      this.bytesSent += piece.length;
      if (this.afterBytes(this.bytesSent)) return;
      this.send(content, response, offset + piece.length);
    });
  }
}

export const sha256 = (content: Buffer): string => createHash('sha256').update(content).digest('hex');
export const gitId = (content: Buffer): string =>
  createHash('sha1').update(`blob ${content.length}\0`).update(content).digest('hex');

function json(response: ServerResponse, value: unknown): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value));
}

const addressOf = (server: Server): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
