import { closeSync, existsSync, openSync, realpathSync, rmSync } from 'node:fs';
import { writeOutputFile } from '../../lib/support/output-file.js';
import { RocmForgeError } from '../../shared/errors.js';
import {
  GetModelRequest,
  type InferenceServiceClient,
  type Model,
} from '../../shared/generated/rocmforge/v1/inference.js';
import { fromServiceError } from '../../shared/grpc/status.js';
import type { OptionValues } from '../../shared/option-table.js';
import { packageVersion } from '../../shared/package.js';
import { outputOf } from '../../shared/write-error.js';
import { gatewayClient } from '../common/gateway-client.js';
import { writeJson, writeText } from '../common/output.js';
import { unreachable } from '../common/unreachable.js';
import type { BENCH_SERVE_OPTIONS } from './bench-commands.js';
import { type Arrival, offerLoad } from './load.js';
import { formatComparison, readLoadRun } from './load-comparison.js';
import { LOAD_RUN_FORMAT, type LoadRun, loadPlot } from './load-plot.js';
import { formatLoadReport, loadReport } from './load-report.js';
import { MetricsSnapshot } from './prometheus.js';
import { Workload } from './workload.js';

export type BenchServeOptions = OptionValues<typeof BENCH_SERVE_OPTIONS>;

const MOST_ARRIVALS = 1e6;

function checkArrivals({ rate, seconds, requests }: BenchServeOptions): void {
  if (rate === undefined) return;
  if (requests !== undefined) {
    throw new RocmForgeError('INVALID_OPTION', '--requests cannot be combined with --rate; give --seconds');
  }
  if (rate * seconds > MOST_ARRIVALS) {
    throw new RocmForgeError('INVALID_OPTION', `--rate and --seconds make more than ${MOST_ARRIVALS} requests`);
  }
}

/** @throws RocmForgeError as {@link writeError} */
function checkWritable(file: string): void {
  const isNew = !existsSync(file);
  outputOf(file, () => closeSync(openSync(file, 'a')));
  if (isNew) rmSync(realpathSync(file));
}

/** `rocmforge bench serve`: offers a load to a gateway and tells what its clients saw. */
export async function benchServe(options: BenchServeOptions): Promise<void> {
  // Before the load: it takes minutes, and is not to be for nothing.
  const before = options.compare === undefined ? undefined : readLoadRun(options.compare);
  checkArrivals(options);
  for (const file of [options.plot, options.save]) if (file !== undefined) checkWritable(file);
  const clients = Array.from({ length: options.connections }, () =>
    // Each client has a connection of its own.
    gatewayClient(options.address, options, { 'grpc.use_local_subchannel_pool': 1 }),
  );
  const model = await servedModel(clients[0] as InferenceServiceClient, options.address);
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
  const start = await readMetrics();
  const records = await offerLoad(clients, workload, arrivalOf(options), options.seed);
  const end = await readMetrics();
  for (const client of clients) client.close();
  const report = loadReport(records, start && end && { before: start, after: end });
  const run: LoadRun = {
    format: LOAD_RUN_FORMAT,
    title: `${model.name} on ${model.device}`,
    parameters: parametersOf(options),
    records,
  };
  const { save, plot, json } = options;
  // A load takes minutes: a full disk must not cost its report, too.
  if (json) writeJson(report, 2);
  else {
    writeText(formatLoadReport(report));
    if (before !== undefined) writeText(formatComparison(report, before));
  }
  if (save !== undefined) outputOf(`--save ${save}`, () => writeOutputFile(save, `${JSON.stringify(run)}\n`));
  if (plot !== undefined) {
    const runs = before === undefined ? ([run] as const) : ([run, before] as const);
    outputOf(`--plot ${plot}`, () => writeOutputFile(plot, loadPlot(runs)));
  }
}

/** Description of the offered load, for readers of the plot alone. */
function parametersOf(options: BenchServeOptions): string {
  const { rate, clients, seconds, requests, promptTokens, tokens, sharedPrefix, prefixes, connections, seed } = options;
  const range = ([least, most]: readonly [number, number]) => (least === most ? `${least}` : `${least} to ${most}`);
  const arrival =
    rate === undefined
      ? `${clients} clients for ${requests === undefined ? `${seconds} s` : `${requests} requests`}`
      : `${rate} requests/s for ${seconds} s`;
  const shared = sharedPrefix > 0 ? `, ${sharedPrefix} of them shared in ${prefixes} ways` : '';
  return (
    `${arrival}, prompts of ${range(promptTokens)} tokens${shared}, ${range(tokens)} generated, ` +
    `${connections} connections, seed ${seed}, rocmforge ${packageVersion}, ${new Date().toISOString().slice(0, 10)}`
  );
}

function arrivalOf({ rate, clients, seconds, requests }: BenchServeOptions): Arrival {
  const durationMs = 1000 * seconds;
  if (rate !== undefined) return { kind: 'open', requestsPerSecond: rate, durationMs };
  if (requests !== undefined) return { kind: 'count', clients, requests };
  return { kind: 'closed', clients, durationMs };
}

/** @throws RocmForgeError the gateway's, or why none answers at the address */
function servedModel(client: InferenceServiceClient, address: string): Promise<Model> {
  return new Promise((resolve, reject) => {
    client.getModel(GetModelRequest.create(), (error, response) => {
      if (error) reject(unreachable(fromServiceError(error), address));
      else if (response.model) resolve(response.model);
    });
  });
}
