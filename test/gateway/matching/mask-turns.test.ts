import fc from 'fast-check';
import { expect, it } from 'vitest';
import { MaskTurns } from '../../../src/gateway/matching/mask-turns.js';

/** Time that each client gets while all of them always want more; `costs`: milliseconds of one piece of work, by client. */
function shares(costs: Readonly<Record<string, number>>, pieces: number): Record<string, number> {
  const turns = new MaskTurns<string>();
  const used: Record<string, number> = {};
  for (const client of Object.keys(costs)) turns.add(client, client);
  for (let i = 0; i < pieces; i++) {
    const { client } = turns.take() as { client: string };
    turns.charge(client, costs[client] as number);
    used[client] = (used[client] ?? 0) + (costs[client] as number);
    turns.add(client, client);
  }
  return used;
}

it('clients that always want more get the same time, but for one piece of work', () => {
  fc.assert(
    fc.property(fc.array(fc.double({ min: 0.1, max: 50, noNaN: true }), { minLength: 2, maxLength: 6 }), (costs) => {
      const used = Object.values(shares(Object.fromEntries(costs.map((ms, i) => [`c${i}`, ms])), 3000));
      expect(Math.max(...used) - Math.min(...used)).toBeLessThanOrEqual(2 * Math.max(...costs));
    }),
  );
});

it('who uses little is next, however much of others waits', () => {
  const turns = new MaskTurns<string>();
  for (let i = 0; i < 1000; i++) turns.add('mallory', `slow ${i}`);
  let waited = 0;
  for (let i = 0; i < 100; i++) {
    turns.add('alice', `quick ${i}`);
    for (let next = turns.take(); next?.client !== 'alice'; next = turns.take()) {
      turns.charge('mallory', 20);
      waited += 1;
    }
    turns.charge('alice', 0.3);
  }
  // Once in each 20 ms of her own time, and at the start.
  expect(waited).toBeLessThanOrEqual(3);
});

it('nobody saves time up, and nobody is remembered longer than it counts', () => {
  const turns = new MaskTurns<number>();
  turns.add('early', 0);
  expect(turns.take()).toEqual({ client: 'early', entry: 0 });
  turns.charge('early', 1);
  for (let i = 0; i < 100; i++) {
    turns.add('busy', i);
    turns.take();
    turns.charge('busy', 10);
  }
  // Behind 1,000 ms of the other one, the early one is served first, but not 100 times in a row.
  for (let i = 0; i < 10; i++) {
    turns.add('early', i);
    turns.add('busy', i);
  }
  const order = Array.from({ length: 6 }, () => {
    const { client } = turns.take() as { client: string };
    turns.charge(client, 10);
    return client;
  });
  expect(order.filter((client) => client === 'busy').length).toBeGreaterThanOrEqual(2);
  expect(turns.take()).toBeDefined();
});

it('what a client waits for no more is not served', () => {
  const turns = new MaskTurns<number>();
  for (const each of [1, 2, 3]) turns.add('alice', each);
  turns.remove('alice', (each) => each < 3);
  expect(turns.take()).toEqual({ client: 'alice', entry: 3 });
  turns.add('alice', 4);
  turns.remove('alice', () => true);
  expect(turns.take()).toBeUndefined();
});
