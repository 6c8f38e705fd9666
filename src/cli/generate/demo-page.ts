import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { startGateway } from '../../gateway/main.js';
import type { OptionValues } from '../../shared/option-table.js';
import type { DEMO_OPTIONS } from '../command-options.js';
import { writeNotice, writeText } from '../common/output.js';
import { DEMO_MODEL } from '../common/package-files.js';
import { gatewayOptions } from '../serve/gateway-options.js';
import { watchNpm } from '../serve/npm-parent.js';

/** Time per step: the small model writes a story in less time than a reader needs to press a button. */
const STEP_DELAY_MS = 40;

/**
 * `rocmforge demo --page`: serves the chat page with the package's own model and a button that kills the executor, on the
 * loopback address alone, until it is interrupted.
 *
 * @throws RocmForgeError `ADDRESS_IN_USE`
 */
export async function demoPage(options: OptionValues<typeof DEMO_OPTIONS>): Promise<void> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-'));
  const removeFolder = (): void => rmSync(folder, { recursive: true, force: true });
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
  const gateway = await startGateway({ ...all, demoKill: true }).catch((error: unknown) => {
    removeFolder();
    throw error;
  });
  const stop = (): void => {
    void gateway.stop().then(() => {
      removeFolder();
      process.exit(0);
    });
  };
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.once(signal, stop);
  watchNpm(stop);
  writeNotice('Open this page, send a message, and kill the executor while it answers. Ctrl+C ends the demo.\n');
  writeText(`http://127.0.0.1:${gateway.httpServer?.port}/\n`);
}
