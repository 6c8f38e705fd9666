import { RocmForgeError } from '../../../shared/errors.js';
import type { HttpContext } from './context.js';
import type { Exchange } from './exchange.js';
import { queried } from './llama/autoload.js';

const RETRY_MS = 1000;

/**
 * llama.cpp's `GET /v1/stream?conv_id=NAME&from=BYTES`: a kept stream from a place on, and what is still to come.
 *
 * @throws RocmForgeError `STREAM_NOT_FOUND`, `INVALID_FIELD`; `MODEL_LOADING` while its model is being loaded for it
 */
export async function resumeStream(exchange: Exchange, { streams }: HttpContext): Promise<void> {
  const { request, client } = exchange;
  const name = nameOf(exchange);
  const from = queried(request, 'from') ?? '0';
  if (!/^\d{1,15}$/.test(from)) {
    throw new RocmForgeError('INVALID_FIELD', `from: "${from.slice(0, 32)}" is not a number of bytes`, {
      field: 'from',
    });
  }
  const stream = streams.find(client.principal, name);
  if (stream.isLoading()) {
    const message = 'the model of the stream is being loaded';
    throw new RocmForgeError('MODEL_LOADING', message, { retry_delay_ms: String(RETRY_MS) });
  }
  stream.readBy(exchange, Number(from));
}

/**
 * llama.cpp's `DELETE /v1/stream?conv_id=NAME`: ends a kept stream, and what computes it.
 *
 * @throws RocmForgeError `STREAM_NOT_FOUND`, `INVALID_FIELD`
 */
export async function stopStream(exchange: Exchange, { streams }: HttpContext): Promise<void> {
  const stream = streams.find(exchange.client.principal, nameOf(exchange));
  stream.stop(new RocmForgeError('STREAM_CANCELLED', 'the stream was cancelled by DELETE /v1/stream'));
  exchange.response.writeHead(204).end();
}

function nameOf({ request }: Exchange): string {
  const name = queried(request, 'conv_id') ?? '';
  if (name !== '') return name;
  throw new RocmForgeError('INVALID_FIELD', 'conv_id: is missing; name a stream with ?conv_id=NAME', {
    field: 'conv_id',
  });
}
