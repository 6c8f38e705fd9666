import type { Budget } from './budget.js';
import { fail } from './errors.js';
import type { Value } from './values.js';

/** Macros that call each other, and loops into themselves, no deeper than this: each level is several of JavaScript's. */
const MAX_CALLS = 100;

/** One rendering: its output and what it may still do. */
export class Rendering {
  private output = '';
  private calls = 0;

  constructor(readonly budget: Budget) {}

  write(text: string): void {
    this.budget.chargeText(text.length);
    this.output += text;
  }

  /** Output of `body`, instead of writing it. */
  capture(body: () => void): string {
    const outer = this.output;
    this.output = '';
    body();
    const text = this.output;
    this.output = outer;
    return text;
  }

  /** One level down. @throws TemplateError at the deepest */
  enter<T>(body: () => T): T {
    if (++this.calls > MAX_CALLS) fail(`calls are nested deeper than ${MAX_CALLS} levels`);
    const result = body();
    this.calls--;
    return result;
  }
}

/** The variables of a scope; what it does not have, the one around it may. */
export class Frame {
  private readonly values: Map<string, Value>;

  constructor(
    readonly rendering: Rendering,
    private readonly parent?: Frame | undefined,
    values?: Map<string, Value>,
  ) {
    this.values = values ?? new Map();
  }

  get(name: string): Value | undefined {
    for (let frame: Frame | undefined = this; frame !== undefined; frame = frame.parent) {
      const value = frame.values.get(name);
      if (value !== undefined) return value;
    }
    return undefined;
  }

  set(name: string, value: Value): void {
    this.values.set(name, value);
  }

  inner(): Frame {
    return new Frame(this.rendering, this);
  }
}
