import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { RocmForgeClient } from '../../client/index.js';
import { startGateway } from '../../gateway/main.js';
import type { ModelOptionValues } from '../common/options.js';
import { gatewayOptions } from '../serve/gateway-options.js';
import type { Verdict } from './verdict.js';

const TOKENS = 96;
const KILLED_AFTER_TOKENS = 24;
const CONTEXT = 256;

type Options = Pick<ModelOptionValues, 'device' | 'gpu' | 'threads' | 'kernels' | 'attention' | 'kvCacheType'>;

/**
 * One sampled stream through a gateway and an executor process, then the same whose executor gets SIGKILL while it runs: the
 * ids must be equal.
 *
 * @param file of the model
 */
export async function survivesKill(file: string, model: string, options: Options): Promise<Verdict> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-'));
  const listen = `unix:${path.join(folder, 'gateway.sock')}`;
  const gateway = await startGateway(gatewayOptions({ ...options, model: file, listen, maxContext: CONTEXT }));
  const client = new RocmForgeClient(listen);
  /** The ids of the stream, and the longest wait for one. */
  const run = async (kills: boolean): Promise<{ ids: number[]; pauseMs: number }> => {
    const ids: number[] = [];
    let pauseMs = 0;
    let last = performance.now();
    let isKilled = !kills;
    const request = {
      input: { $case: 'text', value: { text: 'Once upon a time' } },
      sampling: { temperature: 1, seed: 7n },
      stop: { maxTokens: TOKENS, ignoreEos: true },
    } as const;
    for await (const event of client.generateStream(request)) {
      if (event.$case !== 'chunk') continue;
      ids.push(...event.value.tokenIds);
      const now = performance.now();
      pauseMs = Math.max(pauseMs, now - last);
      last = now;
      const pid = gateway.executorPid();
      if (!isKilled && ids.length >= KILLED_AFTER_TOKENS && pid !== undefined) {
        isKilled = true;
        process.kill(pid, 'SIGKILL');
      }
    }
    return { ids, pauseMs };
  };
  try {
    const undisturbed = await run(false);
    const executors = gateway.executorEpoch();
    const killed = await run(true);
    const deaths = gateway.executorEpoch() - executors;
    const same = killed.ids.filter((id, i) => id === undisturbed.ids[i]).length;
    return {
      model,
      check: 'a stream whose executor is killed',
      measured: `${same} of ${undisturbed.ids.length} tokens equal, ${deaths} kill -9, a pause of ${Math.round(killed.pauseMs)} ms`,
      passed: deaths === 1 && same === undisturbed.ids.length && same === killed.ids.length && same === TOKENS,
    };
  } finally {
    client.close();
    await gateway.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}
