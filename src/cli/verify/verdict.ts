/** One thing that was held against a reference. */
export interface Verdict {
  readonly model: string;
  readonly check: string;
  readonly measured: string;
  readonly passed: boolean;
}

/** All verdicts in one line. */
export function conclusion(verdicts: readonly Verdict[], device: string): string {
  const failed = verdicts.filter(({ passed }) => !passed).map(({ check }) => check);
  if (failed.length > 0) return `NOT VERIFIED on ${device}: ${failed.join('; ')}`;
  return `VERIFIED on ${device}: ${verdicts.length} of ${verdicts.length} checks passed`;
}
