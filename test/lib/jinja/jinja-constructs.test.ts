import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { TemplateError } from '../../../src/lib/jinja/errors.js';
import { parseJson } from '../../../src/lib/jinja/json.js';
import { Template } from '../../../src/lib/jinja/template.js';
import type { Dict, Value } from '../../../src/lib/jinja/values.js';
import { CONSTRUCTS, VARIABLES } from './jinja-constructs.js';
import { hasJinja, NOW, renderWithJinja } from './jinja-oracle.js';

/** Texts that Jinja renders; `null` where it fails. */
type Expected = Readonly<Record<string, string | null>>;

const FIXTURE = fileURLToPath(new URL('../../fixtures/jinja-constructs.json', import.meta.url));

function renderHere(source: string): string | null {
  const variables = new Map((parseJson(VARIABLES) as Dict).entries() as [string, Value][]);
  const limits = { steps: 100_000, units: 100_000 };
  try {
    return new Template(source).render(variables, { limits, now: new Date(NOW) });
  } catch (error) {
    if (error instanceof TemplateError) return null;
    throw error;
  }
}

function askJinja(): Expected {
  const answers = renderWithJinja(CONSTRUCTS.map((source) => ({ source, variables: VARIABLES })));
  return Object.fromEntries(CONSTRUCTS.map((source, i) => [source, (answers[i] as { text?: string }).text ?? null]));
}

if (!hasJinja) console.log('the expected renderings are not asked of Jinja again: python3 has no jinja2');
else if (process.env.ROCMFORGE_WRITE_FIXTURES === '1') {
  writeFileSync(FIXTURE, `${JSON.stringify(askJinja(), undefined, 1)}\n`);
}
const expected = JSON.parse(readFileSync(FIXTURE, 'utf8')) as Expected;

describe('what templates are made of', () => {
  it.each(CONSTRUCTS.map((source) => [source]))('renders as in Jinja: %j', (source) => {
    expect(renderHere(source)).toBe(expected[source]);
  });

  it.skipIf(!hasJinja)('is what Jinja renders here and now (ROCMFORGE_WRITE_FIXTURES=1 writes it anew)', () => {
    expect(askJinja()).toEqual(expected);
  });
});
