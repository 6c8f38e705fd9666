/** Weight of a further duration in the mean of its number of rows, at least. */
const LEAST_WEIGHT = 1 / 16;
/** Each number of rows up to here is measured by itself; above, a quarter of a doubling. */
const FEW_ROWS = 8;
const PARTS_OF_DOUBLING = 4;

interface Mean {
  rows: number;
  us: number;
  count: number;
}

/**
 * Measured durations of steps without prompts, or of parts of them, by their number of rows. A step with more rows takes longer by leaps,
 * at sizes where kernels read the weights again, so that no line describes it; and each size is remembered while steps have others.
 */
export class StepDurations {
  private readonly means: (Mean | undefined)[] = [];

  /** A step of so many rows has taken so many microseconds. */
  add(rows: number, us: number): void {
    const size = sizeOf(rows);
    const mean = this.means[size] ?? { rows: 0, us: 0, count: 0 };
    this.means[size] = mean;
    mean.count += 1;
    const weight = Math.max(LEAST_WEIGHT, 1 / mean.count);
    mean.rows += weight * (rows - mean.rows);
    mean.us += weight * (us - mean.us);
  }

  /** Microseconds of a step of so many rows: between the nearest measured ones, and never fewer than with fewer rows; undefined: none is. */
  of(rows: number): number | undefined {
    let before: Mean | undefined;
    let first: Mean | undefined;
    for (const mean of this.means) {
      if (mean === undefined) continue;
      const us: number = Math.max(mean.us, before?.us ?? 0);
      if (rows <= mean.rows) {
        if (before === undefined) return us;
        return before.us + ((us - before.us) * (rows - before.rows)) / (mean.rows - before.rows);
      }
      before = { ...mean, us };
      first ??= before;
    }
    if (before === undefined || first === undefined || before === first) return before?.us;
    const perRow = (before.us - first.us) / (before.rows - first.rows);
    return before.us + perRow * (rows - before.rows);
  }
}

const sizeOf = (rows: number): number =>
  rows <= FEW_ROWS ? rows : FEW_ROWS + Math.ceil(PARTS_OF_DOUBLING * Math.log2(rows / FEW_ROWS));
