import { Budget, type WorkLimits } from './budget.js';
import { TemplateError } from './errors.js';
import { Frame, Rendering } from './frame.js';
import { globalValues } from './globals.js';
import { parse } from './parser.js';
import { compile } from './statements.js';
import type { Value } from './values.js';

/** The most UTF-16 units of a template; real ones have up to 25,000. */
const MAX_SOURCE = 1_000_000;

export interface RenderOptions {
  readonly limits: WorkLimits;
  /** The time that `strftime_now` tells. */
  readonly now: Date;
}

/**
 * A Jinja template as `transformers` renders it: Jinja 3.1 in its sandbox, with `trim_blocks`, `lstrip_blocks`, loop
 * controls, `tojson` without escapes of non-ASCII, `raise_exception` and `strftime_now`. Nothing that Jinja lacks works
 * here; what is not built is refused by name.
 */
export class Template {
  private readonly execute: (frame: Frame) => void;

  /** @throws TemplateError for a template that cannot be read */
  constructor(source: string) {
    if (source.length > MAX_SOURCE) throw new TemplateError(`it has more than ${MAX_SOURCE} characters`);
    this.execute = guarded(() => compile(parse(source)));
  }

  /** @throws TemplateError for what Python would raise for, and past the limits */
  render(variables: ReadonlyMap<string, Value>, { limits, now }: RenderOptions): string {
    const rendering = new Rendering(new Budget(limits));
    const globals = new Frame(
      rendering,
      undefined,
      globalValues(() => now),
    );
    const frame = new Frame(rendering, globals, new Map(variables));
    return guarded(() => rendering.capture(() => this.execute(frame)));
  }
}

/** Nesting so deep that JavaScript's stack ends is the template's fault too. */
function guarded<T>(body: () => T): T {
  try {
    return body();
  } catch (error) {
    if (error instanceof RangeError) throw new TemplateError('it is nested too deeply', { cause: error });
    throw error;
  }
}
