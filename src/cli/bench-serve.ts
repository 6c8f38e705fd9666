import { writeFileSync } from 'node:fs';
import { RocmForgeError } from '../shared/errors.js';
import {
  GetModelRequest,
  type InferenceServiceClient,
  type Model,
} from '../shared/generated/rocmforge/v1/inference.js';
import { fromServiceError } from '../shared/grpc/status.js';
import { type Arrival, offerLoad } from './bench/load.js';
import { formatLoadReport, loadReport } from './bench/load-report.js';
import { loadPlot } from './bench/plot.js';
import { MetricsSnapshot } from './bench/prometheus.js';
import { Workload } from './bench/workload.js';
import { type ClientOptions, gatewayClient } from './gateway-client.js';

export interface BenchServeOptions extends ClientOptions {
  /** Of the gateway. */
  readonly address: string;
  /** `HOST:PORT` of its metrics. */
  readonly metrics?: string;
  /** Open loop: requests a second. */
  readonly rate?: number;
  /** Closed loop: clients that each have one request under way. */
  readonly clients: number;
  readonly seconds: number;
  /** Closed loop: end after this many requests rather than after a time. */
  readonly requests?: number;
  readonly promptTokens: readonly [least: number, most: number];
  readonly tokens: readonly [least: number, most: number];
  readonly sharedPrefix: number;
  readonly prefixes: number;
  readonly firstToken: number;
  readonly connections: number;
  readonly seed: number;
  readonly plot?: string;
  readonly json: boolean;
}

/** `rocmforge bench serve`: offers a load to a gateway and tells what its clients saw. */
export async function benchServe(options: BenchServeOptions): Promise<void> {
  const clients = Array.from({ length: options.connections }, () =>
    // Each client has a connection of its own.
    gatewayClient(options.address, options, { 'grpc.use_local_subchannel_pool': 1 }),
  );
  const model = await servedModel(clients[0] as InferenceServiceClient);
  const workload = new Workload({
    seed: options.seed,
    promptTokens: options.promptTokens,
    outputTokens: options.tokens,
    sharedPrefix: options.sharedPrefix,
    prefixes: options.prefixes,
    firstToken: options.firstToken,
    vocabularySize: model.vocabularySize,
  });
  const longest = options.promptTokens[1] + options.tokens[1];
  if (longest > model.contextLength) {
    throw new RocmForgeError(
      'INVALID_OPTION',
      `${longest} tokens of prompt and completion are more than the ${model.contextLength} that ${model.name} has`,
    );
  }
  const readMetrics = async () => (options.metrics ? await MetricsSnapshot.read(options.metrics) : undefined);
  const before = await readMetrics();
  const records = await offerLoad(clients, workload, arrivalOf(options), options.seed);
  const after = await readMetrics();
  for (const client of clients) client.close();
  const report = loadReport(records, before && after && { before, after });
  if (options.plot !== undefined) writeFileSync(options.plot, loadPlot(records, `${model.name} on ${model.device}`));
  process.stdout.write(options.json ? `${JSON.stringify(report, null, 2)}\n` : formatLoadReport(report));
}

function arrivalOf({ rate, clients, seconds, requests }: BenchServeOptions): Arrival {
  const durationMs = 1000 * seconds;
  if (rate !== undefined) return { kind: 'open', requestsPerSecond: rate, durationMs };
  if (requests !== undefined) return { kind: 'count', clients, requests };
  return { kind: 'closed', clients, durationMs };
}

function servedModel(client: InferenceServiceClient): Promise<Model> {
  return new Promise((resolve, reject) => {
    client.getModel(GetModelRequest.create(), (error, response) => {
      if (error) reject(fromServiceError(error));
      else if (response.model) resolve(response.model);
    });
  });
}
