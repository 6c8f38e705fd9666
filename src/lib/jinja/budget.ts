import { fail } from './errors.js';

/** Limits of one rendering. Both depend on the template alone: no clock, so the same request always ends the same. */
export interface WorkLimits {
  /** Nodes evaluated, items visited; about 20 ns each. */
  readonly steps: number;
  /** UTF-16 units of all strings made on the way, and of the output. */
  readonly units: number;
}

/**
 * Counts what a template does. Templates come with model files, so they are hostile until shown otherwise: one may loop
 * 10^10 times or double a string 40 times.
 */
export class Budget {
  private steps: number;
  private units: number;

  constructor(private readonly limits: WorkLimits) {
    this.steps = limits.steps;
    this.units = limits.units;
  }

  /** @throws TemplateError past the limit */
  charge(steps: number): void {
    this.steps -= steps;
    if (!(this.steps >= 0)) fail(`it takes more than ${this.limits.steps} steps for this conversation`);
  }

  /** Call it before a string of that length is made. @throws TemplateError past the limit */
  chargeText(units: number): void {
    this.units -= units;
    if (!(this.units >= 0)) fail(`it makes more than ${this.limits.units} characters of text for this conversation`);
  }

  /**
   * Call it before two strings are joined. The engine copies them when they are read, not now: what a template writes bit by
   * bit costs the bits, while each doubling costs all.
   */
  chargeJoin(left: string, right: string): void {
    const [shorter, longer] = left.length < right.length ? [left, right] : [right, left];
    this.chargeText(shorter.length + longer.length / 16);
  }

  /** Call it before so many items are copied, which is a fraction of a step each. */
  chargeCopy(items: number): void {
    this.charge(1 + items / 8);
  }

  /** A search of `needle` in `text`, whose worst case is the product of their lengths. */
  chargeSearch(text: string, needle: string): void {
    this.charge((text.length * Math.max(needle.length, 4)) / 256);
  }
}
