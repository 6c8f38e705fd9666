/** Reads text that arrives in pieces: suspends where more is needed, returns what was read. */
export type Reading<T> = Generator<void, T, void>;

/** Takes text as it becomes certain. */
export type TextSink = (text: string) => void;

/**
 * Text that arrives in pieces, for a reader that is written as if all of it were there. Every operation suspends until what
 * it decides by has arrived or the text has ended, never earlier, so what is read does not depend on where pieces were cut.
 */
export class TextReader {
  private text = '';
  private at = 0;
  private hasEnded = false;
  private isCut = false;
  /** Half of a surrogate pair, which is not a text without the other half. */
  private halfPair = '';
  /** Text read since {@link hold}, except the part in `text` before `at`; undefined while nothing is held. */
  private held: string[] | undefined;

  /** Takes the next piece. */
  feed(piece: string): void {
    let whole = this.halfPair + piece;
    this.halfPair = '';
    if (isHighSurrogate(whole.charCodeAt(whole.length - 1))) {
      this.halfPair = whole.slice(-1);
      whole = whole.slice(0, -1);
    }
    this.held?.push(this.text.slice(0, this.at));
    this.text = this.text.slice(this.at) + whole;
    this.at = 0;
  }

  /** No more comes. @param isCut whether more would have come: what may be the beginning of a literal is read over then */
  end(isCut = false): void {
    this.hasEnded = true;
    this.isCut = isCut;
    this.text += this.halfPair;
    this.halfPair = '';
  }

  /** True if all is read of a text that was cut. */
  get isCutHere(): boolean {
    return this.isCut && this.at === this.text.length;
  }

  /** True if what is read from now on is remembered. */
  get isHolding(): boolean {
    return this.held !== undefined;
  }

  /** Remembers what is read from now on, until {@link release}. */
  hold(): void {
    this.held = [];
    this.text = this.text.slice(this.at);
    this.at = 0;
  }

  /** Forgets. @returns what was read since {@link hold} */
  release(): string {
    const { held } = this;
    this.held = undefined;
    return held === undefined ? '' : held.join('') + this.text.slice(0, this.at);
  }

  /** The next character (a UTF-16 unit), which stays to be read; undefined at the end. */
  *peek(): Reading<string | undefined> {
    while (this.at === this.text.length && !this.hasEnded) yield;
    return this.text[this.at];
  }

  /** Reads over spaces and ends of lines. */
  *skipSpace(): Reading<void> {
    for (;;) {
      while (isSpace(this.text.charCodeAt(this.at))) this.at += 1;
      if (this.at < this.text.length || this.hasEnded) return;
      yield;
    }
  }

  /** Which of some literals, none of which begins with another, comes next; it stays to be read. */
  *comes(...literals: readonly string[]): Reading<string | undefined> {
    for (;;) {
      const next = literals.find((literal) => this.text.startsWith(literal, this.at));
      if (next !== undefined) return next;
      const rest = this.text.slice(this.at);
      const mayCome = literals.some((literal) => literal.startsWith(rest));
      if (this.isCut && mayCome) this.at = this.text.length;
      if (this.hasEnded || !mayCome) return undefined;
      yield;
    }
  }

  /** Reads what {@link comes}. */
  *accept(...literals: readonly string[]): Reading<string | undefined> {
    const next = yield* this.comes(...literals);
    if (next !== undefined) this.at += next.length;
    return next;
  }

  /**
   * Reads up to the first of some literals, which stays to be read, or to the end.
   *
   * @returns which one comes next; undefined at the end
   */
  *readTo(literals: readonly string[], sink: TextSink): Reading<string | undefined> {
    for (;;) {
      const { literal, begin } = this.firstOf(literals);
      // Text that may still become a literal waits.
      const end = begin ?? this.text.length;
      if (end > this.at) sink(this.text.slice(this.at, end));
      this.at = end;
      if (literal !== undefined) return literal;
      if (this.isCut) this.at = this.text.length;
      if (this.hasEnded) return undefined;
      yield;
    }
  }

  /**
   * Reads characters as `scan` says of each: on, or up to here with it (`last`) or without it (`stop`).
   *
   * @returns whether `scan` has ended it, and not the end of the text
   */
  *readAs(scan: (unit: number) => 'on' | 'last' | 'stop', sink: TextSink): Reading<boolean> {
    for (;;) {
      const begin = this.at;
      let verdict: ReturnType<typeof scan> = 'on';
      while (verdict === 'on' && this.at < this.text.length) {
        verdict = scan(this.text.charCodeAt(this.at));
        if (verdict !== 'stop') this.at += 1;
      }
      if (this.at > begin) sink(this.text.slice(begin, this.at));
      if (verdict !== 'on') return true;
      if (this.hasEnded) return false;
      yield;
    }
  }

  /** The literal that comes first, or where the text's end may be the beginning of one. */
  private firstOf(literals: readonly string[]): { literal?: string; begin?: number } {
    let literal: string | undefined;
    let begin = Number.POSITIVE_INFINITY;
    for (const candidate of literals) {
      const found = this.text.indexOf(candidate, this.at);
      if (found >= 0 && found < begin) {
        literal = candidate;
        begin = found;
      }
    }
    if (!this.hasEnded || this.isCut) {
      const longest = literals.reduce((most, { length }) => Math.max(most, length), 0);
      const from = Math.max(this.at, this.text.length - longest + 1);
      for (let at = from; at < Math.min(begin, this.text.length); at++) {
        const rest = this.text.slice(at);
        if (literals.some((candidate) => candidate.startsWith(rest))) return { begin: at };
      }
    }
    return literal === undefined ? {} : { literal, begin };
  }
}

/** Spaces as JSON and templates write them. */
export function isSpace(unit: number): boolean {
  return unit === 0x20 || unit === 0x0a || unit === 0x0d || unit === 0x09;
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}
