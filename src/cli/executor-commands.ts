import type { Command } from 'commander';
import {
  DEVICE_OPTIONS,
  EXECUTOR_OPTIONS,
  INHERITED_OPTIONS,
  ONE_EXECUTOR_SPLIT_OPTIONS,
} from '../shared/executor-options.js';
import { flagOrFalse, grouped, type OptionValues, option, preset, required } from '../shared/option-table.js';
import { address, text, wholeNumber } from '../shared/option-types.js';
import { outliveOutput } from './common/closed-output.js';
import { addOptions, checkSplit } from './common/options.js';
import { ignoreInspectorSignal } from './serve/serve-command.js';

const KEEPER_OPTIONS = { ...DEVICE_OPTIONS, ...ONE_EXECUTOR_SPLIT_OPTIONS };

export const EXECUTOR_COMMAND_OPTIONS = {
  ...EXECUTOR_OPTIONS,
  listen: required('<address>', address, 'HOST:PORT or unix:PATH for the gateway'),
  ...grouped('Access:', {
    secretFile: option('<file>', text, 'secret that gateways must present'),
    tlsCert: option('<file>', text, 'serve TLS with this certificate (PEM)'),
    tlsKey: option('<file>', text, 'private key of --tls-cert (PEM)'),
    tlsClientCa: option('<file>', text, 'require gateway certificates signed by these authorities (PEM)'),
    insecure: flagOrFalse('on a loopback address: accept any gateway, without a secret or TLS'),
  }),
  ...grouped('Operation:', {
    stepTimeoutMs: preset(
      '<ms>',
      wholeNumber(1),
      2000,
      'least time (ms) before a step counts as hung in health checks',
    ),
    leaseMs: preset(
      '<ms>',
      wholeNumber(1000),
      10_000,
      'time (ms) without a sign of its gateway after which another gateway may connect',
    ),
  }),
  ...INHERITED_OPTIONS,
};

/** `keeper` and `executor`. */
export function addExecutorCommands(program: Command): void {
  addOptions(program.command('keeper', { hidden: true }), KEEPER_OPTIONS)
    .description(
      'keep weights and KV blocks in device memory for the executors of a gateway, which starts this command',
    )
    .requiredOption('--listen <path>')
    .action(async ({ listen, device, gpu, gpus, kernels }) => {
      const { runKeeper } = await import('../executor/keeper/keeper.js');
      await runKeeper({ listen, device: { kind: device, gpu, gpus, kernels } });
    });

  addOptions(program.command('executor'), EXECUTOR_COMMAND_OPTIONS)
    .description('run an executor without a gateway, for serve --executor on this or another machine')
    .action(async (options: OptionValues<typeof EXECUTOR_COMMAND_OPTIONS>) => {
      ignoreInspectorSignal();
      outliveOutput();
      checkSplit(options);
      const [{ runExecutor }, { parseFault }] = await Promise.all([
        import('../executor/main.js'),
        import('../executor/serve/fault-injection.js'),
      ]);
      const { device: kind, gpu, gpus, threads, kernels, dieWithParent = false, plantFault } = options;
      await runExecutor({
        ...options,
        device: { kind, gpu, gpus, threads, kernels },
        shares: options.tensorSplit,
        dieWithParent,
        stepDelayMs: options.stepDelayMs ?? 0,
        fault: plantFault === undefined ? undefined : parseFault(plantFault),
      });
      // One that a gateway started is the gateway's, which tells of both.
      if (!dieWithParent) {
        const { notifyReady } = await import('./common/service-manager.js');
        notifyReady(`executor listening on ${options.listen}`);
      }
    });
}
