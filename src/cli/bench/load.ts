import type { ServiceError } from '@grpc/grpc-js';
import { asRocmForgeError } from '../../shared/errors.js';
import {
  GenerateStreamRequest,
  type GenerateStreamResponse,
  type InferenceServiceClient,
  SamplingParameters,
  StopConditions,
} from '../../shared/generated/rocmforge/v1/inference.js';
import { fromServiceError } from '../../shared/grpc/status.js';
import { type PlannedRequest, poissonArrivals, type Workload } from './workload.js';

/** One request as its client saw it. Times are milliseconds since the load began. */
export interface RequestRecord {
  readonly startedAt: number;
  firstTokenAt: number;
  endedAt: number;
  promptTokens: number;
  cachedTokens: number;
  tokens: number;
  chunks: number;
  /** Milliseconds between chunks. */
  readonly gapsMs: number[];
  /** Reason of the error that ended it; empty: it ended well. */
  error: string;
}

/** Arrival of requests: at a fixed rate, or each client's next one when its last has ended. */
export type Arrival =
  | { readonly kind: 'open'; readonly requestsPerSecond: number; readonly durationMs: number }
  | { readonly kind: 'closed'; readonly clients: number; readonly durationMs: number }
  | { readonly kind: 'count'; readonly clients: number; readonly requests: number };

/** Offers a load and resolves when all of it has ended. */
export async function offerLoad(
  clients: readonly InferenceServiceClient[],
  workload: Workload,
  arrival: Arrival,
  seed: number,
): Promise<RequestRecord[]> {
  const began = performance.now();
  const records: RequestRecord[] = [];
  const send = (): Promise<void> => {
    const client = clients[records.length % clients.length] as InferenceServiceClient;
    const record = newRecord(performance.now() - began);
    records.push(record);
    return run(client, workload.next(), record, began);
  };
  if (arrival.kind === 'open') {
    const running: Promise<void>[] = [];
    for (const at of poissonArrivals(seed, arrival.requestsPerSecond, arrival.durationMs)) {
      const wait = at - (performance.now() - began);
      if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
      running.push(send());
    }
    await Promise.all(running);
    return records;
  }
  const isOver = (): boolean =>
    arrival.kind === 'closed' ? performance.now() - began >= arrival.durationMs : records.length >= arrival.requests;
  const client = async (): Promise<void> => {
    while (!isOver()) await send();
  };
  await Promise.all(Array.from({ length: arrival.clients }, client));
  return records;
}

function newRecord(startedAt: number): RequestRecord {
  const nothing = { promptTokens: 0, cachedTokens: 0, tokens: 0, chunks: 0 };
  return { startedAt, firstTokenAt: Number.NaN, endedAt: Number.NaN, ...nothing, gapsMs: [], error: '' };
}

/** Streams one request; what goes wrong is written into its record. */
function run(
  client: InferenceServiceClient,
  { prompt, outputTokens }: PlannedRequest,
  record: RequestRecord,
  began: number,
): Promise<void> {
  return new Promise((resolve) => {
    let last = 0;
    // A stream that ends with an error may end twice, in either order.
    const end = (error: string): void => {
      record.error ||= error;
      record.endedAt = performance.now() - began;
      resolve();
    };
    const call = client.generateStream({
      ...GenerateStreamRequest.create(),
      input: { $case: 'tokens', value: { ids: [...prompt] } },
      sampling: { ...SamplingParameters.create(), temperature: 0 },
      stop: { ...StopConditions.create(), maxTokens: outputTokens, ignoreEos: true },
    });
    call.on('data', ({ event }: GenerateStreamResponse) => {
      if (event?.$case === 'complete') {
        record.promptTokens = event.value.usage?.promptTokens ?? 0;
        record.cachedTokens = event.value.usage?.cachedTokens ?? 0;
      }
      if (event?.$case !== 'chunk') return;
      const now = performance.now() - began;
      if (record.chunks === 0) record.firstTokenAt = now;
      else record.gapsMs.push(now - last);
      last = now;
      record.chunks += 1;
      record.tokens += event.value.tokenIds.length;
    });
    call.on('error', (error: ServiceError) => end(asRocmForgeError(fromServiceError(error)).reason));
    call.on('end', () => end(''));
  });
}
