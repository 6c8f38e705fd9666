import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** The time of every rendering that is compared. */
export const NOW = '2025-03-09T08:05:07';

export interface OracleCase {
  readonly source: string;
  /** JSON. */
  readonly variables: string;
  /** The content of the final turn, where the prompt ends behind it. */
  readonly final?: string;
}

export type Rendered = { readonly text: string } | { readonly error: string };

/** The Python that has Jinja: the first one found may be another than the distribution's. */
const python = ['python3', '/usr/bin/python3'].find(
  (program) => spawnSync(program, ['-c', 'import jinja2.sandbox']).status === 0,
);

/** True if Python's own Jinja is here to be asked. */
export const hasJinja = python !== undefined;

/** Texts that Jinja renders, in the order of the cases. */
export function renderWithJinja(cases: readonly OracleCase[]): Rendered[] {
  const script = fileURLToPath(new URL('jinja_oracle.py', import.meta.url));
  const { status, stdout, stderr } = spawnSync(python as string, [script], {
    input: JSON.stringify({ now: NOW, cases }),
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
  });
  if (status !== 0) throw new Error(`the oracle failed: ${stderr}`);
  return JSON.parse(stdout) as Rendered[];
}
