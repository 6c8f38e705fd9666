/** One thing that was looked at. */
export interface Finding {
  readonly check: string;
  /**
   * `failed`: it is there and does not work. `warning`: the same, but nothing needs it here. `missing`: it is not there, and something
   * else may do.
   */
  readonly state: 'ok' | 'missing' | 'warning' | 'failed' | 'info';
  readonly detail: string;
  /** Command that fixes it; to be read before it is run. */
  readonly fix?: string;
}

/** The findings as a table; below a line that has one, the command that fixes it. */
export function formatFindings(findings: readonly Finding[]): string {
  const width = Math.max(...findings.map(({ check }) => check.length));
  return findings
    .map(({ check, state, detail, fix }) => {
      const line = `${check.padEnd(width)}  ${state.padEnd(7)}  ${detail}`;
      return fix === undefined ? line : `${line}\n${' '.repeat(width)}  fix:     ${fix}`;
    })
    .join('\n');
}
