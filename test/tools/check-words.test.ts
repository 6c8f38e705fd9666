import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { packageRoot } from '../../src/shared/package.js';
import {
  guideTexts,
  lengthComplaints,
  nameComplaints,
  phraseComplaints,
  sourceTexts,
  subjectComplaints,
  subjectsSince,
  vagueComments,
  wordComplaints,
} from '../../tools/check-words.mjs';

const NONE = new Map<string, string>();

describe('former names', () => {
  it.each(['door', 'openDoors', 'DOOR_LIMIT', 'isPutAway', 'GuessedTokens', 'heirsOf', 'tellReady', 'door_label'])(
    'rejects the identifier %s',
    (name) => {
      expect(nameComplaints('src/a.ts', `const a = 1;\nconst ${name} = 2;`)).toEqual([
        expect.stringContaining(`src/a.ts:2 has the former name ${name}; say `),
      ]);
    },
  );

  it.each(['indoor', 'outdoors', 'tell', 'guest', 'space', 'lookup', 'heirloom', 'adoption'])('accepts %s', (name) => {
    expect(nameComplaints('src/a.ts', `const ${name} = 2;`)).toEqual([]);
  });

  it('reads identifiers, not comments, strings and regular expressions', () => {
    const source = [
      '// a door',
      `/* door */ const a = \`a door \${\`or door\`}\`;`,
      "const b = ['door', /door'/, \"door\"];",
    ];
    expect(nameComplaints('src/a.ts', source.join('\n'))).toEqual([]);
    expect(nameComplaints('src/a.ts', [...source, 'door();'].join('\n'))).toEqual([expect.stringContaining('a.ts:4')]);
  });

  it('accepts an exception, and rejects one that is no longer needed', () => {
    expect(nameComplaints('src/a.ts', 'door();', { door: 'of a house' })).toEqual([]);
    expect(nameComplaints('src/a.ts', 'f();', { door: 'of a house' })).toEqual([
      'src/a.ts has no door; remove it from tools/words.mjs',
    ]);
  });
});

describe('texts for users', () => {
  it('are strings of several words; a sum of strings is one text', () => {
    const source = `f('a-key', 'one text', \`value \${x} is\` +\n  ' too large', "third text");`;
    expect(sourceTexts('src/a.ts', source)).toEqual([
      ['src/a.ts:1', 'one text'],
      ['src/a.ts:1', 'value 0 is too large'],
      ['src/a.ts:2', 'third text'],
    ]);
  });

  it('are paragraphs and items of guides, but not code, tables and headings', () => {
    const page = '# A door\n\nOne line\nand `door` more.\n- item\n\n```sh\ndoor\n```\n| door | door |\nLast one.';
    expect(guideTexts('docs/a.md', page)).toEqual([
      ['docs/a.md:3', 'One line and `x` more.'],
      ['docs/a.md:5', '- item'],
      ['docs/a.md:11', 'Last one.'],
    ]);
  });

  it.each(['the HTTP door is closed', 'nobody reads it', 'the value is of the cache', '--port is no integer'])(
    'must not say "%s"',
    (text) => {
      expect(phraseComplaints(['src/a.ts:1', text])).toEqual([expect.stringMatching(/^src\/a\.ts:1 says “/)]);
    },
  );

  it('have sentences of at most 40 words', () => {
    const words = (count: number) => Array.from({ length: count }, () => 'word').join(' ');
    expect(lengthComplaints(['docs/a.md:1', `${words(40)}. ${words(40)}.`])).toEqual([]);
    expect(lengthComplaints(['docs/a.md:1', `${words(3)}. ${words(41)}.`])).toEqual([
      expect.stringContaining('docs/a.md:1 has a sentence of 41 words'),
    ]);
  });

  it('are checked in sources of src and in guides', () => {
    const source = "const a = 'the door is open';";
    const { complaints, counts } = wordComplaints(
      new Map([
        ['src/a.ts', source],
        ['test/a.ts', source],
      ]),
      new Map([['docs/a.md', 'Nobody reads it.']]),
      0,
    );
    expect(complaints).toEqual([
      expect.stringContaining('src/a.ts:1 says “door”'),
      expect.stringContaining('docs/a.md:1 says “Nobody”'),
    ]);
    expect(counts).toBe(
      'words: 0 former names, 2 former phrases and 0 long sentences in 2 texts, 0 of at most 0 vague comments',
    );
  });
});

describe('comments', () => {
  it.each(['// What it does.', '/** Whether it is. */', '/**\n * How it is done.\n */', 'f(); // Of the first.'])(
    'count when they start with a clause: %s',
    (comment) => {
      expect(vagueComments(`// Whole.\n\nf();\n${comment}`)).toHaveLength(1);
    },
  );

  it('count once, by their first line', () => {
    expect(vagueComments('// Rows of a step.\n// What is more.\n')).toEqual([]);
    expect(vagueComments('// Of a step.\n// What is more.\n')).toHaveLength(1);
    expect(vagueComments("const a = '// What';\n// However.")).toEqual([]);
  });

  it('may be so many, and the maximum must follow them down', () => {
    const tree = (count: number) => new Map([['src/a.ts', '// What it is.\n\n'.repeat(count)]]);
    expect(wordComplaints(tree(40), NONE, 40).complaints).toEqual([]);
    expect(wordComplaints(tree(41), NONE, 40).complaints).toEqual([expect.stringMatching(/^41 comments .* than 40/)]);
    expect(wordComplaints(tree(9), NONE, 40).complaints).toEqual([expect.stringContaining('lower MOST_VAGUE')]);
  });
});

describe('commit subjects', () => {
  it.each(['router: move requests', 'native, kernels: start comments', 'README: need less', 'docs: process pages'])(
    'may be "%s"',
    (subject) => {
      expect(subjectComplaints([subject])).toEqual([]);
    },
  );

  it.each([
    ['What waits may go', 'write scope: imperative sentence'],
    ['router: Moves requests', 'write scope: imperative sentence'],
    ['router: moves requests', '“moves” is not imperative'],
    ['router: moved requests', '“moved” is not imperative'],
    ['router: moving requests', '“moving” is not imperative'],
    [`router: move ${'x'.repeat(60)}`, '73 characters are more than 72'],
  ])('may not be "%s"', (subject, why) => {
    expect(subjectComplaints([subject])).toEqual([`commit “${subject}”: ${why}`]);
  });

  it('are not read where there is no history', () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'words-'));
    try {
      expect(subjectsSince(folder)).toBeUndefined();
      expect(subjectsSince(packageRoot, '0'.repeat(40))).toBeUndefined();
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
