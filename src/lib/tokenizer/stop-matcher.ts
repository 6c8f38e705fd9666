import { TokenizerError } from './error.js';
import { checkWellFormed } from './tokenizer.js';

export interface StopOptions {
  /** True if the stop string that matched is part of the text. */
  readonly include: boolean;
}

export interface StopResult {
  /** Text that may be sent now. */
  readonly text: string;
  /** The stop string that ended the text; from here on every `push` returns nothing. */
  readonly stop: string | undefined;
}

/** A state: how far the text's end has come into the stop strings. */
interface State {
  readonly next: Map<number, State>;
  /** UTF-16 units of the text's end that may still become a stop string. */
  readonly depth: number;
  /** State to continue from if no stop string continues with the next unit. */
  fallback: State | undefined;
  /** The longest stop string that ends here. */
  stop: string | undefined;
}

/** The stop strings of a request as one automaton (Aho-Corasick): built once, matched against each of its texts. */
export class StopStrings {
  readonly root: State;
  readonly texts: ReadonlySet<string>;

  /** @throws TokenizerError `INVALID_FIELD` for an empty or ill-formed stop string */
  constructor(strings: readonly string[]) {
    for (const stop of strings) {
      if (stop === '') {
        throw new TokenizerError('INVALID_FIELD', 'a stop string is empty', { field: 'stop.strings' });
      }
      checkWellFormed(stop, 'stop.strings');
    }
    this.root = buildStates(strings);
    this.texts = new Set(strings);
  }
}

/**
 * Ends a text at the first stop string, in chunks of any size, with one table look-up a character.
 *
 * The match that is **complete first** wins; of several that end at the same character the longest, which began first. It
 * is thereby known at its last character, and the text does not depend on how it was cut into chunks. Without `include`
 * the end of the text is held back while it may still become a stop string, and only then; with it nothing ever is,
 * because whatever comes before a match is sent anyway.
 */
export class StopMatcher {
  private state: State;
  private held = '';
  private matched: string | undefined;

  constructor(
    private readonly stops: StopStrings,
    private readonly options: StopOptions,
  ) {
    this.state = stops.root;
  }

  /** Takes the next piece of text, whole characters. */
  push(text: string): StopResult {
    if (this.matched !== undefined) return { text: '', stop: this.matched };
    for (let i = 0; i < text.length; i++) {
      this.state = this.step(text.charCodeAt(i));
      if (this.state.stop === undefined) continue;
      this.matched = this.state.stop;
      const upToMatch = this.held + text.slice(0, i + 1);
      this.held = '';
      const end = this.options.include ? upToMatch.length : upToMatch.length - this.matched.length;
      return { text: upToMatch.slice(0, end), stop: this.matched };
    }
    const whole = this.held + text;
    const end = this.options.include ? whole.length : whole.length - this.state.depth;
    this.held = whole.slice(end);
    return { text: whole.slice(0, end), stop: undefined };
  }

  /** The text held back, when no more will come. */
  finish(): string {
    const rest = this.held;
    this.held = '';
    this.state = this.stops.root;
    return rest;
  }

  private step(unit: number): State {
    for (let state: State | undefined = this.state; state !== undefined; state = state.fallback) {
      const next = state.next.get(unit);
      if (next !== undefined) return next;
    }
    return this.stops.root;
  }
}

function buildStates(stops: readonly string[]): State {
  const root: State = { next: new Map(), depth: 0, fallback: undefined, stop: undefined };
  for (const stop of stops) {
    let state = root;
    for (let i = 0; i < stop.length; i++) {
      const unit = stop.charCodeAt(i);
      let next = state.next.get(unit);
      if (next === undefined) {
        next = { next: new Map(), depth: i + 1, fallback: undefined, stop: undefined };
        state.next.set(unit, next);
      }
      state = next;
    }
    state.stop = stop;
  }
  // Breadth first: a state's fallback is shallower, so it is complete when the state is reached.
  const queue: State[] = [root];
  for (const state of queue) {
    for (const [unit, next] of state.next) {
      let fallback = state.fallback;
      while (fallback !== undefined && !fallback.next.has(unit)) fallback = fallback.fallback;
      next.fallback = fallback?.next.get(unit) ?? root;
      next.stop ??= next.fallback.stop;
      queue.push(next);
    }
  }
  return root;
}
