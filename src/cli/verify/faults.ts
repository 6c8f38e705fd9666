import path from 'node:path';
import { RocmForgeClient } from '../../client/index.js';
import { startGateway } from '../../gateway/main.js';
import { requireDecoder } from '../common/decoder.js';
import type { ModelOptionValues } from '../common/options.js';
import { temporaryFolder } from '../common/temporary-folder.js';
import { gatewayOptions } from '../serve/gateway-options.js';
import type { Verdict } from './verdict.js';

const TOKENS = 96;
const KILLED_AFTER_TOKENS = 24;
const CONTEXT = 256;

type Options = Pick<ModelOptionValues, 'device' | 'gpu' | 'threads' | 'kernels' | 'attention' | 'kvCacheType'>;

/**
 * One sampled stream through a gateway and an executor process, then the same whose executor gets SIGKILL while it runs: the
 * ids must be equal. Twice: the next executor continues with the KV blocks that outlived the killed one, and, where no memory
 * is kept, computes the stream again.
 *
 * @param file of the model
 */
export async function survivesKill(file: string, model: string, options: Options): Promise<Verdict> {
  const kept = await killedOnce(file, options);
  const recomputed = await killedOnce(file, { ...options, keepsMemory: false });
  const ends = [kept, recomputed];
  const sum = (key: 'same' | 'kills') => ends.reduce((total, end) => total + end[key], 0);
  const [keptMs, recomputedMs] = ends.map(({ pauseMs }) => Math.round(pauseMs));
  return {
    model,
    check: 'a stream whose executor is killed',
    measured: `${sum('same')} of ${2 * TOKENS} tokens equal, ${sum('kills')} kill -9, pauses of ${keptMs} ms (memory kept) and ${recomputedMs} ms (computed again)`,
    passed: ends.every(({ same, tokens, kills }) => same === TOKENS && tokens === TOKENS && kills === 1),
  };
}

interface KilledStream {
  /** Of the stream whose executor was killed. */
  readonly tokens: number;
  /** Of these, how many are those of the stream that ran undisturbed. */
  readonly same: number;
  /** Executors that were replaced. */
  readonly kills: number;
  /** Longest wait for a token. */
  readonly pauseMs: number;
}

async function killedOnce(file: string, options: Options & { keepsMemory?: boolean }): Promise<KilledStream> {
  const { folder, remove } = temporaryFolder();
  const listen = `unix:${path.join(folder, 'gateway.sock')}`;
  const gateway = await startGateway(gatewayOptions({ ...options, model: file, listen, maxContext: CONTEXT }));
  const client = new RocmForgeClient(listen);
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
    requireDecoder({ isEncoder: gateway.models.some(({ served }) => served.facts.embeddings?.isEncoder) });
    const undisturbed = await run(false);
    const executors = gateway.executorEpoch();
    const killed = await run(true);
    return {
      tokens: killed.ids.length,
      same: killed.ids.filter((id, i) => id === undisturbed.ids[i]).length,
      kills: gateway.executorEpoch() - executors,
      pauseMs: killed.pauseMs,
    };
  } finally {
    client.close();
    await gateway.stop();
    remove();
  }
}
