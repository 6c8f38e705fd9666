import { asRocmForgeError, RocmForgeError } from '../../../../shared/errors.js';
import type { HttpContext } from '../context.js';
import type { Exchange } from '../exchange.js';
import { isServed, modelField, smallBody } from './ollama-routes.js';

/**
 * Downloads a model to the cache of the gateway's machine.
 *
 * @param name     `hf.co/OWNER/REPOSITORY[:QUANTIZATION]`
 * @param progress is given the bytes that are there, of all files
 */
export type ModelPull = (name: string, progress: (done: number, total: number) => void) => Promise<unknown>;

/** Time between two reports of the progress. */
const REPORT_MS = 200;
/** One download at a time: each needs disk and network for hours. */
let isPulling = false;

/**
 * Ollama's `POST /api/pull`. A served model is there; another is downloaded to the cache, from which a gateway can be started.
 *
 * @throws RocmForgeError `SWITCHED_OFF`, `QUEUE_FULL`, `INVALID_FIELD`, those of the hub
 */
export async function pull(exchange: Exchange, context: HttpContext): Promise<void> {
  const fields = await smallBody(exchange, context);
  const name = modelField(fields);
  const isStream = fields.boolean('stream') ?? true;
  fields.ignore('insecure', 'username', 'password');
  fields.end();
  if (isServed(name, context)) {
    if (isStream) exchange.text('{"status":"success"}\n', 'application/x-ndjson');
    else exchange.json({ status: 'success' });
    return;
  }
  const { pullModel } = context;
  if (pullModel === undefined) {
    const what = `"${name}" is not served, and downloads are disabled; start the gateway with --http-pull`;
    throw new RocmForgeError('SWITCHED_OFF', what, { field: 'model' });
  }
  if (isPulling) {
    const what = 'another model is being downloaded; try again when it is there';
    throw new RocmForgeError('QUEUE_FULL', what, { retry_delay_ms: '60000' });
  }
  isPulling = true;
  try {
    await download(exchange, name, isStream, pullModel);
  } finally {
    isPulling = false;
  }
}

/** A client that disconnects does not end the download: the next one finds what is there. */
async function download(exchange: Exchange, name: string, isStream: boolean, pullModel: ModelPull): Promise<void> {
  const { response } = exchange;
  let hasBegun = false;
  const line = (body: unknown): void => {
    if (!isStream || response.destroyed) return;
    if (!hasBegun) response.writeHead(200, { 'content-type': 'application/x-ndjson' });
    hasBegun = true;
    response.write(`${JSON.stringify(body)}\n`);
  };
  let reportedAt = Number.NEGATIVE_INFINITY;
  try {
    await pullModel(name, (completed, total) => {
      const now = performance.now();
      if (now - reportedAt < REPORT_MS && completed < total) return;
      reportedAt = now;
      line({ status: `pulling ${name}`, digest: name, total, completed });
    });
    if (!isStream) {
      exchange.json({ status: 'success' });
      return;
    }
    line({ status: 'verifying sha256 digest' });
    line({ status: 'success' });
  } catch (error) {
    if (!hasBegun) throw error;
    line(exchange.errorForm(asRocmForgeError(error)).body);
  }
  response.end();
}
