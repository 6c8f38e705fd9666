import { describe, expect, it } from 'vitest';
import { isSameSecret } from '../../src/shared/secret.js';

const SECRET = `${'s'.repeat(31)}é`;

describe('a secret', () => {
  it('is the same as itself', () => {
    expect(isSameSecret(SECRET, `${SECRET}`)).toBe(true);
  });

  it.each([
    ['a beginning of it', SECRET.slice(0, 8)],
    ['its end', SECRET.slice(8)],
    ['nothing', ''],
    ['more than it', `${SECRET}s`],
    ['another of its length', SECRET.replace('s', 't')],
    ['another case', SECRET.toUpperCase()],
    ['another form of its letters', SECRET.normalize('NFD')],
  ])('is not %s, whichever is told', (_what, other) => {
    expect([isSameSecret(SECRET, other), isSameSecret(other, SECRET)]).toEqual([false, false]);
  });
});
