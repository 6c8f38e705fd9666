import { gunzipSync } from 'node:zlib';
import { RocmForgeError } from '../../../../shared/errors.js';
import { packageVersion } from '../../../../shared/package.js';
import type { HttpContext } from '../context.js';
import type { Exchange } from '../exchange.js';
import { type PageFile, pageFiles } from './page-files.js';

/**
 * No inline code, nothing from elsewhere, no frame around it. Trusted types make the browser refuse to parse any text as HTML, so that
 * no answer of a model can become markup.
 */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ');

const HEADERS = {
  'content-security-policy': POLICY,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
};

/** The name of a file that is not the document has a hash of its content. */
const FOREVER = 'public, max-age=31536000, immutable';

/** `GET /`: the page. */
export async function page(exchange: Exchange, context: HttpContext): Promise<void> {
  sendFile(exchange, fileOf('index.html', context), 'no-cache');
}

/** `GET /page/NAME`: a file of the page. */
export async function pageFile(exchange: Exchange, context: HttpContext, name: string): Promise<void> {
  sendFile(exchange, fileOf(name, context), FOREVER);
}

/** `GET /rocmforge/page`: what the page may show. */
export async function pageState(exchange: Exchange, { serverState, killExecutor, shows }: HttpContext): Promise<void> {
  if (!shows.page) throw notFound();
  const server = await serverState?.();
  exchange.response.setHeader('cache-control', 'no-store');
  exchange.json({ version: packageVersion, can_kill_executor: killExecutor !== undefined, ...(server && { server }) });
}

/** `POST /rocmforge/kill-executor`: the button of `rocmforge demo --page`. */
export async function killExecutor(exchange: Exchange, context: HttpContext): Promise<void> {
  if (context.killExecutor === undefined) throw notFound();
  // Its content type keeps other origins' pages from sending it.
  await exchange.body();
  context.killExecutor();
  exchange.json({});
}

const notFound = () => new RocmForgeError('PATH_NOT_FOUND', 'the page is disabled', { field: 'path' });

function fileOf(name: string, { shows }: HttpContext): PageFile {
  const file = shows.page ? pageFiles().get(name) : undefined;
  if (file === undefined) throw notFound();
  return file;
}

function sendFile(exchange: Exchange, { type, gzipped }: PageFile, cacheControl: string): void {
  const { request, response } = exchange;
  for (const [name, value] of Object.entries(HEADERS)) response.setHeader(name, value);
  response.setHeader('cache-control', cacheControl);
  response.appendHeader('vary', 'accept-encoding');
  const takesGzip = /\bgzip\b/.test(String(request.headers['accept-encoding'] ?? ''));
  if (takesGzip) response.setHeader('content-encoding', 'gzip');
  exchange.send(takesGzip ? gzipped : gunzipSync(gzipped), type);
}
