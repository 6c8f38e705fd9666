import { isLocal } from '../shared/address.js';
import type { ErrorReason } from '../shared/errors.js';
import type { Fault } from '../shared/fault-log.js';
import { Health, LIVENESS } from '../shared/grpc/health.js';
import { createLogger, logSink } from '../shared/log.js';
import { KEPT_STREAM_METRICS, LOSS_METRICS, SPAN_METRICS } from '../shared/metric-table.js';
import { withDefaults } from '../shared/option-table.js';
import { administrationOf } from './administration.js';
import { type AdminServer, openAdminServer } from './api/admin/admin-server.js';
import { INFERENCE_SERVICE } from './api/grpc/inference-service.js';
import { OpenFiles } from './api/grpc/open-files.js';
import { openPublicServer, type PublicServer } from './api/grpc/public-server.js';
import { publicServices } from './api/grpc/public-services.js';
import type { HttpFacts } from './api/http/context.js';
import type { HttpServer } from './api/http/http-server.js';
import type { OfferedModel } from './api/models.js';
import { deviceState, watchDevices } from './device-metrics.js';
import { drain } from './drain.js';
import type { HostedModel } from './hosted-model.js';
import { HostedModels, openModels } from './hosted-models.js';
import { Metrics } from './metrics.js';
import { type MetricsServer, serveMetrics } from './metrics-server.js';
import { GATEWAY_OPTIONS, type GatewayOptions, type GivenGatewayOptions } from './options.js';
import { faultCounters } from './replica/link/fault-reports.js';
import { removeLeftFolders } from './replica/link/private-folder.js';
import type { SupervisorState } from './replica/link/supervision.js';
import type { Replica } from './replica/replica.js';
import { serverState } from './server-state.js';
import { Trust } from './trust/trust.js';

/** A gateway that serves. */
export interface Gateway {
  /** The port it is bound to; 0 for a socket file. */
  readonly port: number;
  readonly models: readonly HostedModel[];
  /** Name of the first model. Everything below about one model or executor is about it, too. */
  readonly modelName: string;
  readonly contextLength: number;
  /** The most sequences that run at once; 0 before it was loaded. */
  readonly sequences: number;
  /** The executor's process id, where this gateway started it. */
  executorPid(): number | undefined;
  /** Address of the executor. */
  executorAddress(): string | undefined;
  /** State of the supervisor. */
  executorState(): SupervisorState;
  /** The last executors that ended without being asked to, latest last. */
  readonly faults: readonly Fault[];
  /** Executors started so far. */
  executorEpoch(): number;
  /** Ends one executor after the other and starts another in its place; see {@link HostedModels.replaceExecutors}. */
  replaceExecutors(): Promise<void>;
  /** For tests: those of all models, and the first of them. */
  readonly replicas: readonly Replica[];
  readonly replica: Replica;
  readonly server: PublicServer;
  readonly httpServer: HttpServer | undefined;
  /** The port of the metrics' server; undefined: there is none. */
  readonly metricsPort: number | undefined;
  readonly metrics: Metrics;
  /**
   * Is not ready any more, takes no more requests, and ends when those under way have, or when the time is over.
   *
   * @param delayMs for so long requests are still taken, so that whoever looks at readiness sends none that is refused; then nobody
   * can connect any more, and connections are told to go (GOAWAY)
   * @returns whether all of them ended by themselves
   */
  drain(timeoutMs: number, delayMs?: number): Promise<boolean>;
  /** Ends at once; streams under way are cut. */
  stop(): Promise<void>;
}

/** Time that metrics wait for an executor's device statistics. */
const DEVICE_STATS_TIMEOUT_MS = 500;
const FAULTS_KEPT = 32;

/**
 * Starts a gateway and its executor. Resolves when requests are served.
 *
 * @throws RocmForgeError why it cannot: model file, address, executor
 */
export async function startGateway(given: GivenGatewayOptions): Promise<Gateway> {
  const options: GatewayOptions = withDefaults(GATEWAY_OPTIONS, given);
  const log = createLogger('gateway');
  const started = Math.floor(Date.now() / 1000);
  const left = removeLeftFolders();
  if (left > 0) log.info({ folders: left }, 'removed stale directories of killed gateways');
  const served = openModels(options);
  const faults: Fault[] = [];
  const metrics: Metrics = new Metrics(
    served.map(({ name }, i) => {
      const hosted = (): HostedModel => models.all[i] as HostedModel;
      return {
        name,
        counts: () => hosted().router.counts,
        idleUnloader: () => hosted().idleUnloader,
        admits: () => hosted().router.admits,
        waitsForLoad: () => hosted().place?.isWaiting ?? false,
        grammars: () => hosted().grammars(),
      };
    }),
  );
  const trust = new Trust(options, metrics, log);
  const { listen, httpListen, moreHttpListen = [] } = options;
  const reachable = [listen, httpListen, ...moreHttpListen].filter((at) => at !== undefined && !isLocal(at));
  if (reachable.length > 0 && !trust.demandsCredential)
    log.warn(
      { listen: reachable },
      'every client that reaches this address is served; use --token-file or --tls-client-ca',
    );
  if (reachable.length > 0 && trust.demandsBearer && trust.tls === undefined)
    log.warn({ listen: reachable }, 'tokens and prompts arrive unencrypted; use --tls-cert, or a TLS proxy in front');
  const models: HostedModels = new HostedModels(served, options, metrics.models, {
    ...{ trust, log },
    onState: () => showHealth(),
    onFault: (fault) => {
      faults.push(fault);
      if (faults.length > FAULTS_KEPT) faults.shift();
    },
  });
  const { first } = models;
  const [replica] = first.replicas as [Replica];
  const services = publicServices(models.offered);
  // A service manager that restarts dead processes must not restart a gateway whose executor loads: it would lose every stream.
  const health = new Health(
    services.map(({ name }) => name),
    [LIVENESS, ...(models.all.length > 1 ? models.all.map(healthNameOf) : [])],
  );
  const showHealth = (): void => {
    health.setServing(models.isReady);
    health.setServing(!models.needsRestart, LIVENESS);
    if (models.all.length === 1) return;
    for (const model of models.all) health.setServing(model.router.isReady, healthNameOf(model));
  };
  // A model that is loaded on demand is served before anything happens to it.
  showHealth();
  const servers = options.httpListen ? 2 : 1;
  const files = new OpenFiles(servers * options.maxConnections);
  const server = await openPublicServer(options.listen, services, health, trust, { ...options, files }, log);
  metrics.watchApi('grpc', {
    connections: server.connections.counters,
    calls: [server.calls.counters, server.headers.counters],
    floods: server.floods.counters,
    failedHandshakes: server.failedHandshakes,
  });
  const labels = models.all.flatMap(replicaLabels);
  metrics.watchExecutors(models.replicas, labels);
  metrics.watch(LOSS_METRICS, () => ({ droppedLines: logSink.dropped, lostFaults: faultCounters.notKept }));
  let metricsServer: MetricsServer | undefined;
  let adminServer: AdminServer | undefined;
  let endTracing: (() => Promise<void>) | undefined;
  let httpServer: HttpServer | undefined;
  const close = async (): Promise<void> => {
    server.stop();
    httpServer?.stop();
    metricsServer?.close();
    adminServer?.stop();
    await models.stop();
    await endTracing?.();
    trust.close();
  };
  let closed: Promise<void> | undefined;
  const stop = (): Promise<void> => {
    closed ??= close();
    return closed;
  };
  try {
    if (options.metricsListen) {
      const stateOf = async (one: Replica) => deviceState(await one.deviceStats(DEVICE_STATS_TIMEOUT_MS));
      const statesOfAll = () => Promise.all(models.replicas.map(stateOf));
      watchDevices(metrics.registry, statesOfAll, labels);
      metricsServer = await serveMetrics(metrics.registry, options.metricsListen, {
        isAlive: () => !models.needsRestart,
        isReady: () => models.isReady,
      });
    }
    if (options.adminListen) {
      const administered = administrationOf({ options, models, faults, metrics });
      adminServer = await openAdminServer(options.adminListen, administered, log);
    }
    if (options.httpListen) {
      // Whoever wants no such server starts without what it is made of.
      const [
        { openHttpServer },
        { httpFacts },
        { llamaRegistry },
        { IgnoredFieldLog },
        { ResponseStore },
        { KeptStreams },
      ] = await Promise.all([
        import('./api/http/http-server.js'),
        import('./api/http/facts.js'),
        import('./api/http/llama/metrics.js'),
        import('./api/http/field-policy.js'),
        import('./api/http/openai/responses-store.js'),
        import('./api/http/kept-streams.js'),
      ]);
      const counted = { completions: () => metrics.completions, replicas: () => models.counts };
      const facts = new Map(
        models.all.map((model) => [model as OfferedModel, httpFacts(model.served, options.modelTag ?? [])]),
      );
      const context = {
        models: models.offered,
        factsOf: (model: OfferedModel) => facts.get(model) as HttpFacts,
        trust,
        log,
        loading: {
          maxModels: options.maxLoadedModels ?? models.all.length,
          isOnRequest: options.load !== 'on-command',
        },
        shows: { page: options.httpPage, slots: options.httpSlots ?? false },
        defaults: { verbose: options.httpVerbose ?? false, strictFields: options.strictFields ?? false },
        responses: new ResponseStore(),
        streams: new KeptStreams(),
        pullModel: options.pullModel,
        ignoredFields: new IgnoredFieldLog((fields) =>
          log.info({ fields }, 'HTTP requests have fields that are unknown or have no effect; they are ignored'),
        ),
        serverState: options.httpMetrics ? () => serverState(models, metrics.registry) : undefined,
        killExecutor: options.demoKill ? () => killExecutor(options.httpListen ?? '', replica.pid) : undefined,
        llamaMetrics: options.httpMetrics ? llamaRegistry(counted) : undefined,
        onRefused: (reason: ErrorReason) => metrics.httpRefused(reason),
        started,
      };
      httpServer = await openHttpServer([options.httpListen, ...(options.moreHttpListen ?? [])], context, {
        ...options,
        files,
      });
      metrics.watch(KEPT_STREAM_METRICS, () => context.streams.counts);
      metrics.watchApi('http', {
        connections: httpServer.connections.counters,
        calls: [httpServer.bodies.counters, httpServer.unread.counters],
        failedHandshakes: httpServer.failedHandshakes,
      });
    }
    if (options.otlpEndpoint) {
      const { startTracing } = await import('./tracing.js');
      const spans = { ended: 0, exported: 0 };
      endTracing = await startTracing(options.otlpEndpoint, spans);
      metrics.watch(SPAN_METRICS, () => spans);
    }
    await models.start();
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    port: server.port,
    models: models.all,
    modelName: first.served.name,
    contextLength: first.served.contextLength,
    sequences: first.router.counts.slots,
    executorPid: () => replica.pid,
    executorAddress: () => replica.address,
    executorState: () => replica.state,
    faults,
    executorEpoch: () => replica.counts.executors,
    replica,
    replicas: models.replicas,
    replaceExecutors: () => models.replaceExecutors(),
    server,
    httpServer,
    metricsPort: metricsServer?.port,
    metrics,
    drain: async (timeoutMs, delayMs = 0) => {
      const finished = await drain({ models, server, httpServer, showHealth, log }, timeoutMs, delayMs);
      await stop();
      return finished;
    },
    stop,
  };
}

/** The name under which the health protocol tells of one of several models. */
const healthNameOf = ({ served }: HostedModel): string => `${INFERENCE_SERVICE}/${served.name}`;

/** Ends an executor as a driver fault would, where only this machine can request it. */
function killExecutor(address: string, pid: number | undefined): void {
  if (isLocal(address) && pid !== undefined) process.kill(pid, 'SIGKILL');
}

function replicaLabels({ served, replicas }: HostedModel, _: number, { length }: readonly HostedModel[]) {
  const ofModel = length > 1 && { model_name: served.name };
  return replicas.map((_replica, i) => ({ ...ofModel, replica: String(i) }));
}
