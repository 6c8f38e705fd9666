import { expect, it } from 'vitest';
import { lengthComplaints } from '../../tools/check-lengths.mjs';

const LINES = 'x;\n'.repeat(350);

function complaints(file: string, source: string): string[] {
  return lengthComplaints(new Map([[file, source]]));
}

it('a file of 350 lines is short enough', () => {
  expect(complaints('src/a.ts', LINES)).toEqual([]);
});

it('a longer one is not', () => {
  expect(complaints('src/a.ts', `${LINES}x;\n`)).toEqual([expect.stringContaining('src/a.ts has more than 350 lines')]);
});

it.each([
  ['src/a.ts', `// What it is.\n// One file because of that.\n${LINES}`],
  ['src/a.ts', `import 'b';\n\n/**\n * One file because of that.\n */\n${LINES}`],
  ['native/a.cc', `#include "b.h"\n\n// One file because of that.\n${LINES}`],
  ['tools/a.py', `"""What it is.\n\nOne file because of that.\n"""\n${LINES}`],
])('unless its first comment says why: %s', (file, source) => {
  expect(complaints(file, source)).toEqual([]);
});

it('a reason in a later comment is none', () => {
  expect(complaints('src/a.ts', `// What it is.\nx;\n// One file because of that.\n${LINES}`)).toHaveLength(1);
});
