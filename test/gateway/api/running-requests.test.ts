import { expect, it } from 'vitest';
import { RunningRequests } from '../../../src/gateway/api/running-requests.js';

it('ends what its principal names, and forgets what has ended', () => {
  const running = new RunningRequests();
  const ended: string[] = [];
  const forgets = [
    running.add('p', 'a', () => ended.push('p a 1')),
    running.add('p', 'a', () => ended.push('p a 2')),
    running.add('q', 'a', () => ended.push('q a')),
    running.add('p', '', () => ended.push('nameless')),
  ];
  running.abort('p', ['a', '', 'none']);
  expect(ended).toEqual(['p a 1', 'p a 2']);
  for (const forget of forgets) forget();
  for (const forget of forgets) forget();
  running.abort('q', ['a']);
  expect(ended).toHaveLength(2);
  expect(running.size).toBe(0);
});

it('keeps principal and id apart, whatever either has in it', () => {
  const running = new RunningRequests();
  let isEnded = false;
  running.add('1:a', 'b', () => {
    isEnded = true;
  });
  for (const [principal, id] of [
    ['1', ':ab'],
    ['1:', 'ab'],
    ['1:ab', ''],
    ['', '3:1:ab'],
  ] as const) {
    running.abort(principal, [id]);
  }
  expect(isEnded).toBe(false);
});

it('is not confused by one that forgets itself while it is ended', () => {
  const running = new RunningRequests();
  let ends = 0;
  for (let i = 0; i < 3; i++) {
    const forget = running.add('p', 'a', () => {
      ends += 1;
      forget();
    });
  }
  running.abort('p', ['a', 'a']);
  expect({ ends, size: running.size }).toEqual({ ends: 3, size: 0 });
});
