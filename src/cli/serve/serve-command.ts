import type { Command } from 'commander';
import type { HostedModel } from '../../gateway/hosted-model.js';
import { SERVE_OPTIONS } from '../../gateway/option-table.js';
import type { ModelOptions } from '../../gateway/options.js';
import { outliveOutput } from '../common/closed-output.js';
import { addOptions } from '../common/options.js';
import { writeText } from '../common/output.js';
import { notifyReady, notifyStopping } from '../common/service-manager.js';
import { checkSystemLimits } from '../common/system-limits.js';
import { executorThreads } from './executor-threads.js';
import { limitHeapGrowth } from './heap-growth.js';
import { watchNpm } from './npm-parent.js';

/** Exit codes of `serve`: 0 after a drain that finished, these two otherwise; 1 is an error that is told. */
const EXIT_STREAMS_CUT = 3;
const EXIT_STOPPED_AT_ONCE = 130;
/** The first requests have the processors to themselves. */
const SPARE_ON_HOST_MS = 2000;

/** States of models that are not loaded when the gateway serves; of one that was loaded at the start: its executor is lost. */
const UNLOADED_TEXTS = {
  'at-start': 'loading',
  'on-demand': 'loaded on demand',
  'on-command': 'not loaded (load it with admin --load-model or POST /models/load)',
} as const satisfies Record<HostedModel['loadMode'], string>;

/** SIGUSR1 opens Node's inspector, through which whoever reaches the port runs what he likes; --inspect still does. */
export function ignoreInspectorSignal(): void {
  process.on('SIGUSR1', () => undefined);
}

/** Defines the options of `serve` and what it does. */
export function addServeCommand(serve: Command): void {
  addOptions(serve, SERVE_OPTIONS)
    .description('serve models over gRPC, and over HTTP with --http-listen')
    .action(async (options) => {
      ignoreInspectorSignal();
      outliveOutput();
      const { checkListenAddresses } = await import('./listen-addresses.js');
      checkListenAddresses(options);
      checkSystemLimits(executorThreads(options));
      limitHeapGrowth();
      // From here on: the first process of a container is not ended by signals that it does not handle. What came of a model is
      // kept, and there is nothing yet to drain or to replace.
      let stop = (): void => process.exit(EXIT_STOPPED_AT_ONCE);
      let replace = (): void => undefined;
      for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => stop());
      process.on('SIGUSR2', () => replace());
      const [{ startGateway }, { gatewayOptions }] = await Promise.all([
        import('../../gateway/main.js'),
        import('./gateway-options.js'),
      ]);
      const { defaultStateFolder } = await import('../../shared/fault-log.js');
      const stateFolder = options.stateDir ?? defaultStateFolder();
      const [{ localModel }, { servedModels }, { withOwnOptions }] = await Promise.all([
        import('../hub/pull.js'),
        import('./served-models.js'),
        import('./model-options.js'),
      ]);
      const named = withOwnOptions(servedModels(options), options, serve.options);
      const models: ModelOptions[] = [];
      for (const model of named) models.push({ ...model, model: await localModel(model.model) });
      const [first, ...moreModels] = models;
      const all = gatewayOptions({ ...options, ...first, moreModels });
      const spares = { spareOnHostMs: SPARE_ON_HOST_MS };
      const gateway = await startGateway({ ...all, ...spares, own: first?.own, stateFolder });
      const addressOf = (given: string, port: number): string =>
        given.startsWith('unix:') ? given : given.replace(/\d+$/, String(port));
      const bound = addressOf(options.listen, gateway.port);
      let stopping = false;
      stop = () => {
        // The second signal means now.
        if (stopping) process.exit(EXIT_STOPPED_AT_ONCE);
        stopping = true;
        notifyStopping('ending what is under way');
        void gateway
          .drain(options.drainTimeoutMs, options.drainDelayMs)
          .then((finished) => process.exit(finished ? 0 : EXIT_STREAMS_CUT));
      };
      replace = () => void gateway.replaceExecutors();
      watchNpm(() => stop());
      // Last: who reads this may signal at once.
      const described = ({ served, router, loadMode, kvCacheType }: HostedModel) =>
        `serving ${served.name} on ${bound}: ` +
        (router.isLoaded ? `${router.counts.slots} sequences of` : `${UNLOADED_TEXTS[loadMode]}, sequences of`) +
        ` ${served.contextLength} tokens, ${kvCacheType} KV cache${devicesOf(router.devices)}`;
      const serving = gateway.models.map(described);
      writeText(`${serving.join('\n')}\n`);
      if (gateway.httpServer !== undefined) {
        for (const [i, port] of gateway.httpServer.ports.entries()) {
          const at = addressOf(options.httpAddresses[i], port);
          writeText(`serving HTTP on ${at.startsWith('unix:') ? at : `http://${at}`}\n`);
        }
      }
      if (options.metricsListen !== undefined && gateway.metricsPort !== undefined)
        writeText(`serving metrics on http://${addressOf(options.metricsListen, gateway.metricsPort)}/metrics\n`);
      if (options.adminListen !== undefined) writeText(`serving the admin API on ${options.adminListen}\n`);
      notifyReady(serving.join('; '));
    });
}

/** Devices of the replicas, each once with the number of replicas on it; nothing if none is known yet. */
function devicesOf(devices: readonly string[]): string {
  const names = [...new Set(devices.filter((name) => name !== ''))];
  const counted = names.map((name) => {
    const count = devices.filter((other) => other === name).length;
    return count > 1 ? `${count} × ${name}` : name;
  });
  return counted.length === 0 ? '' : `, on ${counted.join(', ')}`;
}
