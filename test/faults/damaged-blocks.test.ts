import { expect, it } from 'vitest';
import { generate, type TestGateway } from '../support/gateway.js';
import { mixedRequest, seen, startForKills, whenever } from '../support/kill-run.js';
import { Random } from '../support/random.js';
import type { RandomFamilyName } from '../support/random-families.js';
import { byTier, seed } from '../support/run-size.js';
import { hostMemory, strayWrites } from '../support/stray-writes.js';

const STREAMS = byTier({ quick: 12, default: 12, full: 24 });
const FAULTS = byTier({ quick: 3, default: 5, full: 20 });
/** To memory with KV blocks and states, in each fault. */
const WRITES = 10;
/** Full attention; windows; and states. */
const FAMILIES: readonly RandomFamilyName[] = ['llama', 'gpt-oss', 'qwen35'];

/** Faults of the executor, each while it runs steps and after it has written to places that are not its own. */
async function faults({ gateway }: TestGateway, random: Random): Promise<void> {
  let last: number | undefined;
  for (let count = 0; count < FAULTS; count++) {
    await whenever(() => gateway.executorState() === 'serving' && gateway.executorPid() !== last);
    // Some blocks are full by then, and their checksums are known.
    const { steps } = gateway.replica.counts;
    await whenever(() => gateway.replica.counts.steps > steps + 20);
    last = gateway.executorPid() as number;
    process.kill(last, 'SIGSTOP');
    strayWrites(hostMemory(), WRITES, random);
    // It is taken before anything else runs.
    process.kill(last, 'SIGABRT');
    process.kill(last, 'SIGCONT');
  }
}

it.each(FAMILIES)(
  `after ${FAULTS} faults that wrote to KV blocks or states ${WRITES} times each, no stream has another token: %s`,
  async (family) => {
    // Little memory, of which most is in use.
    const server = await startForKills(family, { hasSpare: false, kvMemoryBytes: 8 << 20 });
    try {
      const run = (i: number) => generate(server.client, mixedRequest(i)).then(seen);
      const undisturbed = await Promise.all(Array.from({ length: STREAMS }, (_, i) => run(i)));
      let isOver = false;
      const streams = undisturbed.map(async (expected, i) => {
        // Each again and again, so that there are streams for every fault.
        do expect(await run(i), `stream ${i}`).toEqual(expected);
        while (!isOver);
      });
      await faults(server, new Random(seed(29))).finally(() => {
        isOver = true;
      });
      await Promise.all(streams);
      const { damagedBlocks, keptTokens, recomputedTokens, quarantined } = server.gateway.replica.counts;
      console.log(
        `${family}: ${damagedBlocks} blocks damaged, ${keptTokens} tokens kept, ${recomputedTokens} computed again`,
      );
      expect(quarantined).toBe(0);
      expect(damagedBlocks).toBeGreaterThan(0);
      expect(keptTokens).toBeGreaterThan(0);
    } finally {
      await server.stop();
    }
  },
);
