import { expect, it } from 'vitest';
import { FakeFleet, type FleetSize } from '../../support/fake-fleet.js';
import { FAKE_VOCABULARY } from '../../support/fake-gateway.js';
import { Random } from '../../support/random.js';
import { firstOf } from '../../support/run-size.js';

const CONVERSATIONS = 50;
const TURNS = 4;
/** Conversations that are held at a time. */
const AT_ONCE = 10;

/** Tokens found among blocks, of all prompts of conversations with one system prompt that take turns in an order drawn by lot. */
async function tokensFound(seed: number, sizes: readonly FleetSize[]): Promise<number> {
  const random = new Random(seed);
  const words = (count: number) => Array.from({ length: count }, () => FAKE_VOCABULARY.first + random.below(40));
  const system = words(48);
  const said = Array.from({ length: CONVERSATIONS }, () => ({ tokens: [...system], turns: 0 }));
  const fleet = new FakeFleet(sizes);
  await fleet.start();
  try {
    const resting = [...said];
    const speak = async (): Promise<void> => {
      for (;;) {
        const [conversation] = resting.splice(random.below(resting.length), 1);
        if (conversation === undefined) return;
        conversation.tokens.push(...words(20 + random.below(60)));
        conversation.tokens.push(...(await fleet.generate(conversation.tokens, 24)));
        conversation.turns += 1;
        if (conversation.turns < TURNS) resting.push(conversation);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, speak));
    expect(said.every(({ turns }) => turns === TURNS)).toBe(true);
    expect(fleet.executors.map(({ failure }) => failure)).toEqual(sizes.map(() => undefined));
    return fleet.router.counts.cachedTokens;
  } finally {
    await fleet.stop();
  }
}

const SIZES = [
  ['two thirds of them', 180],
  ['all conversations', 420],
] as const;

it.each(firstOf(1, SIZES))(
  'four replicas find nine tenths of what one as large as all finds, with blocks for %s',
  async (_, kvBlocks) => {
    let [one, four] = [0, 0];
    // Which request comes first is a matter of time: the sum of several rounds depends on it less.
    for (const seed of [1, 2, 3, 4]) {
      one += await tokensFound(seed, [{ kvBlocks: 4 * kvBlocks, maxSequences: 16 }]);
      four += await tokensFound(
        seed,
        Array.from({ length: 4 }, () => ({ kvBlocks, maxSequences: 4 })),
      );
    }
    console.log(`${kvBlocks} blocks a replica: ${four} tokens found, ${(four / one).toFixed(3)} of ${one}`);
    expect(four / one).toBeGreaterThanOrEqual(0.9);
  },
);
