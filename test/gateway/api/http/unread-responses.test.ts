import { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { expect, it } from 'vitest';
import { UnreadResponses } from '../../../../src/gateway/api/http/unread-responses.js';
import { BoundedLog } from '../../../../src/shared/bounded-log.js';

class Answer extends EventEmitter {
  destroyed = false;
  constructor(public writableLength: number) {
    super();
  }
  destroy(): void {
    this.destroyed = true;
    this.writableLength = 0;
    this.emit('close');
  }
}
const from = (remoteAddress: string) => ({ socket: { remoteAddress, remotePort: 1 } }) as IncomingMessage;

it('an answer whose reader makes no progress is given up, and one that is being read is not', async () => {
  const lines: object[] = [];
  const log = new BoundedLog((fields) => lines.push(fields));
  const unread = new UnreadResponses({ timeoutMs: 1000, maxBytes: 1 << 20 }, log);
  const [stuck, read] = [new Answer(1000), new Answer(1_000_000)];
  const reading = setInterval(() => read.writableLength--, 50);
  for (const answer of [stuck, read]) unread.watch(from('10.0.0.1'), answer as unknown as ServerResponse);
  await expect.poll(() => stuck.destroyed).toBe(true);
  expect([read.destroyed, unread.counters.slowReaders]).toEqual([false, 1]);
  expect(lines).toEqual([{ peer: '10.0.0.1', reason: 'SLOW_READER' }]);
  clearInterval(reading);
  read.destroy();
});

it('where all answers together hold too much, the largest of the peer that holds the most is given up', async () => {
  const unread = new UnreadResponses({ timeoutMs: 60_000, maxBytes: 1000 });
  const single = new Answer(500);
  const greedy = [new Answer(300), new Answer(400)];
  unread.watch(from('10.0.0.1'), single as unknown as ServerResponse);
  for (const answer of greedy) unread.watch(from('10.0.0.2'), answer as unknown as ServerResponse);
  await expect.poll(() => greedy[1]!.destroyed).toBe(true);
  expect([single.destroyed, greedy[0]!.destroyed]).toEqual([false, false]);
  for (const answer of [single, ...greedy]) answer.destroy();
});
