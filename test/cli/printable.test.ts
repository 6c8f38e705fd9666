import { expect, it } from 'vitest';
import { printable } from '../../src/cli/printable.js';

it('shows nothing of a text that a terminal would take for a command', () => {
  expect(printable('a\u001b[31mb\u009b2Jc\u0007\u202ed\ne — “ü” 漢')).toBe(
    'a\ufffd[31mb\ufffd2Jc\ufffd\ufffdd\ne — “ü” 漢',
  );
});
