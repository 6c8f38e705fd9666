/** One thing that was looked at. */
export interface Finding {
  readonly check: string;
  /** `failed`: it is there and does not work. `missing`: it is not there, and something else may do. */
  readonly state: 'ok' | 'missing' | 'failed' | 'noted';
  readonly detail: string;
  /** What to type so that it works; to be read before it is run. */
  readonly mend?: string;
}

/** The findings as a table; below a line that has one, the command that mends it. */
export function formatFindings(findings: readonly Finding[]): string {
  const width = Math.max(...findings.map(({ check }) => check.length));
  return findings
    .map(({ check, state, detail, mend }) => {
      const line = `${check.padEnd(width)}  ${state.padEnd(7)}  ${detail}`;
      return mend === undefined ? line : `${line}\n${' '.repeat(width)}  mend:    ${mend}`;
    })
    .join('\n');
}
