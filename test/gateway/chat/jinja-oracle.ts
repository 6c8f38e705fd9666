import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** The time of every rendering that is compared. */
export const NOW = '2025-03-09T08:05:07';

export interface OracleCase {
  readonly source: string;
  /** JSON. */
  readonly variables: string;
}

export type Rendered = { readonly text: string } | { readonly error: string };

/** Whether Python's own Jinja is here to be asked. */
export const hasJinja = spawnSync('python3', ['-c', 'import jinja2.sandbox']).status === 0;

/** What Jinja renders, in the order of the cases. */
export function renderWithJinja(cases: readonly OracleCase[]): Rendered[] {
  const script = fileURLToPath(new URL('jinja_oracle.py', import.meta.url));
  const { status, stdout, stderr } = spawnSync('python3', [script], {
    input: JSON.stringify({ now: NOW, cases }),
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
  });
  if (status !== 0) throw new Error(`the oracle failed: ${stderr}`);
  return JSON.parse(stdout) as Rendered[];
}
