import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { startGateway } from '../../gateway/main.js';
import { removeAtExit } from '../../shared/exit-removal.js';
import type { OptionValues } from '../../shared/option-table.js';
import type { DEMO_OPTIONS } from '../command-options.js';
import { writeNotice, writeText } from '../common/output.js';
import { DEMO_MODEL } from '../common/package-files.js';
import { gatewayOptions } from '../serve/gateway-options.js';
import { watchNpm } from '../serve/npm-parent.js';

/** Time per step: the small model writes a story in less time than a reader needs to press a button. */
const STEP_DELAY_MS = 40;
/** As of `serve`. */
const EXIT_STOPPED_AT_ONCE = 130;

/**
 * `rocmforge demo --page`: serves the chat page with the package's own model and a button that kills the executor, on the
 * loopback address alone, until it is interrupted.
 *
 * @throws RocmForgeError `ADDRESS_IN_USE`
 */
export async function demoPage(options: OptionValues<typeof DEMO_OPTIONS>): Promise<void> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-'));
  removeAtExit(folder);
  const stopAtOnce = (): void => process.exit(EXIT_STOPPED_AT_ONCE);
  let stop = stopAtOnce;
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => stop());
  const all = gatewayOptions({
    ...options,
    stepDelayMs: STEP_DELAY_MS,
    model: DEMO_MODEL,
    modelName: 'demo',
    listen: `unix:${path.join(folder, 'gateway.sock')}`,
    httpAddresses: [`127.0.0.1:${options.port}`],
    httpMetrics: true,
    hasSpare: true,
  });
  const gateway = await startGateway({ ...all, demoKill: true });
  stop = () => {
    stop = stopAtOnce;
    void gateway.stop().then(() => process.exit(0));
  };
  watchNpm(() => stop());
  writeNotice('Open this page, send a message, and kill the executor while it answers. Ctrl+C ends the demo.\n');
  writeText(`http://127.0.0.1:${gateway.httpServer?.port}/\n`);
}
