import { ASCII, type CodePointSet, complement, intersection, NOT_ASCII, pairs } from './code-points.js';
import { type Expression, rulesIn } from './grammar.js';
import { SPECIAL_TOKEN_BYTE } from './special-token-names.js';
import { type ByteRange, utf8Sequences } from './utf8.js';

/** A part of an alternative: an expression, bytes, or one byte of a range. */
type Part = Expression | BytesPart | RangePart;
interface BytesPart {
  readonly kind: 'bytes';
  readonly bytes: Buffer;
}
interface RangePart {
  readonly kind: 'range';
  readonly range: ByteRange;
}
type Alternative = readonly Part[];

/**
 * Writes expressions as the library reads them.
 *
 * Alternatives that begin alike are factored: the library (0.1.27) merges the states of a rule that are reached alike and those that end
 * alike in one pass, so that `"abcbd" | "abd"` takes `abcbcbd`. Where no two alternatives begin alike, only ends are merged, which is
 * right. The library puts the content of a rule that refers to no other in the place of a reference at the beginning of an alternative, and
 * so does this, before it compares beginnings.
 */
export class GrammarWriter {
  /** Rules beside those of the grammar; no other's name has a point. */
  private lines: string[] = [];
  private made = 0;

  /** @param contentOf the content of a rule */
  constructor(private readonly contentOf: (name: string) => Expression) {}

  /** The rule of a name and this content, and those that it needs beside the grammar's; lines. */
  rule(name: string, content: Expression): readonly string[] {
    const line = `${name} ::= ${this.written(content)}`;
    const lines = [line, ...this.lines];
    this.lines = [];
    return lines;
  }

  /** What stands behind `::=`. */
  private written(expression: Expression): string {
    if (expression.kind === 'choice' || expression.kind === 'characters' || expression.kind === 'repeat') {
      return this.alternatives([[expression]]);
    }
    return this.sequence([expression]);
  }

  private alternatives(given: readonly Alternative[], depth = 0): string {
    const groups = new Map<string, Alternative[]>();
    for (const alternative of given.flatMap((one) => this.expanded(one))) {
      const key = this.beginningOf(alternative);
      const group = groups.get(key);
      if (group === undefined) groups.set(key, [alternative]);
      // Of those that are empty, one.
      else if (alternative.length > 0) group.push(alternative);
    }
    return [...groups.values()]
      .map((group) => {
        if (group.length === 1) return this.sequence(group[0] as Alternative);
        const { common, rests } = this.shared(group);
        return `${this.sequence(common)} ${this.rests(rests, depth + 1)}`;
      })
      .join(' | ');
  }

  /** What follows a common beginning: in parentheses, and in a rule of its own where the library's parser would recurse too deep. */
  private rests(given: readonly Alternative[], depth: number): string {
    if (depth < MOST_PARENTHESES) return `(${this.alternatives(given, depth)})`;
    const name = `alternatives.${++this.made}`;
    this.lines.push(`${name} ::= ${this.alternatives(given)}`);
    return name;
  }

  /** What alternatives that begin alike have in common, and what follows it. */
  private shared(group: readonly Alternative[]): {
    readonly common: Alternative;
    readonly rests: readonly Alternative[];
  } {
    const [first, ...others] = group as [Alternative, ...Alternative[]];
    let count = 0;
    for (; count < first.length; count++) {
      const part = first[count] as Part;
      const key = this.sequence([part]);
      if (
        !others.every(
          (other) => other[count] === part || (other.length > count && this.sequence([other[count] as Part]) === key),
        )
      )
        break;
    }
    const common = first.slice(0, count);
    const rests = group.map((alternative) => alternative.slice(count));
    const bytes = rests.map(([head]) => (head?.kind === 'bytes' ? head.bytes : Buffer.alloc(0)));
    const length = sharedLength(bytes);
    if (length === 0) return { common, rests };
    return {
      common: [...common, { kind: 'bytes', bytes: (bytes[0] as Buffer).subarray(0, length) }],
      rests: rests.map(([, ...rest], index) => [
        { kind: 'bytes', bytes: (bytes[index] as Buffer).subarray(length) },
        ...rest,
      ]),
    };
  }

  /** The same for alternatives whose beginnings the library merges. */
  private beginningOf([head]: Alternative): string {
    if (head === undefined) return '';
    return head.kind === 'bytes'
      ? byteClass([head.bytes[0] as number, head.bytes[0] as number])
      : this.sequence([head]);
  }

  /** Alternatives that begin with one thing each. */
  private expanded(alternative: Alternative): readonly Alternative[] {
    const [head, ...rest] = alternative;
    switch (head?.kind) {
      case 'sequence':
        return this.expanded([...head.parts, ...rest]);
      case 'choice':
        return head.options.flatMap((option) => this.expanded([option, ...rest]));
      case 'characters':
        return alternativesOf(head.set, head).map((parts) => [...parts, ...rest]);
      case 'repeat':
        if (head.min > 0 || head.max > 1) return [alternative];
        return [...this.expanded(rest), ...this.expanded([head.what, ...rest])];
      case 'special': {
        return [[...specialParts(head.name), ...rest]];
      }
      case 'rule': {
        const content = this.contentOf(head.name);
        return rulesIn(content).length > 0 ? [alternative] : this.expanded([content, ...rest]);
      }
      case 'text':
        return this.expanded([{ kind: 'bytes', bytes: Buffer.from(head.text) }, ...rest]);
      case 'bytes':
        return head.bytes.length === 0 ? this.expanded(rest) : [alternative];
      default:
        return [alternative];
    }
  }

  private sequence(parts: readonly Part[]): string {
    const written: string[] = [];
    let bytes: Buffer[] = [];
    const flush = (): void => {
      const all = Buffer.concat(bytes);
      if (all.length > 0) written.push(literal(all));
      bytes = [];
    };
    for (const part of parts) {
      if (part.kind === 'bytes') bytes.push(part.bytes);
      else if (part.kind === 'text') bytes.push(Buffer.from(part.text));
      else {
        flush();
        written.push(part.kind === 'range' ? byteClass(part.range) : this.single(part));
      }
    }
    flush();
    return written.length === 0 ? '""' : written.join(' ');
  }

  /** A part as it stands in a sequence. */
  private single(expression: Expression): string {
    switch (expression.kind) {
      case 'text':
        return this.sequence([expression]);
      case 'characters':
        return classOf(expression.set) ?? `(${this.alternatives([[expression]])})`;
      case 'special':
        return `(${this.sequence(specialParts(expression.name))})`;
      case 'rule':
        return expression.name;
      case 'sequence':
        return this.sequence(expression.parts);
      case 'choice':
        return `(${this.alternatives([[expression]])})`;
      case 'repeat': {
        const { what, min, max } = expression;
        const isAtom = what.kind === 'characters' || what.kind === 'rule';
        return `${isAtom ? this.single(what) : `(${this.written(what)})`}${quantifier(min, max)}`;
      }
    }
  }
}

/** Alternatives within alternatives that are written in parentheses. */
const MOST_PARENTHESES = 8;

/** The mark, the name of a special token, the mark. */
function specialParts(name: string): readonly Part[] {
  const mark = bytePart(SPECIAL_TOKEN_BYTE);
  return [mark, { kind: 'text', text: name }, mark];
}

const bytePart = (byte: number): BytesPart => ({ kind: 'bytes', bytes: Buffer.of(byte) });

const partOf = (range: ByteRange): Part => (range[0] === range[1] ? bytePart(range[0]) : { kind: 'range', range });

/** How many bytes some texts begin with alike. */
function sharedLength([first, ...others]: readonly Buffer[]): number {
  if (first === undefined) return 0;
  let length = Math.min(first.length, ...others.map((other) => other.length));
  for (const other of others) {
    let same = 0;
    while (same < length && first[same] === other[same]) same += 1;
    length = same;
  }
  return length;
}

/** Bytes as a text where they are one, else each that is not ASCII as a class. */
function literal(bytes: Buffer): string {
  const read = bytes.toString();
  if (Buffer.from(read).equals(bytes)) return `"${[...read].map(quoted).join('')}"`;
  return runsOf(bytes)
    .map((run) => (typeof run === 'string' ? run : byteClass([run, run])))
    .join(' ');
}

/** ASCII as texts, all other bytes by themselves. */
function runsOf(bytes: Buffer): readonly (string | number)[] {
  const runs: (string | number)[] = [];
  for (const byte of bytes) {
    const last = runs.at(-1);
    const letter = quoted(String.fromCharCode(byte));
    if (byte >= 0x80) runs.push(byte);
    else if (typeof last === 'string') runs[runs.length - 1] = `${last.slice(0, -1)}${letter}"`;
    else runs.push(`"${letter}"`);
  }
  return runs;
}

/**
 * A set as one class. The library's classes read bytes, but for negated ones, which leave out ASCII and read all else as whole characters:
 * so a set that has all that is not ASCII is a negated class.
 *
 * @returns undefined for a set that takes the bytes of its UTF-8
 */
function classOf(set: CodePointSet): string | undefined {
  const high = intersection(set, NOT_ASCII);
  if (high.length === 0) return set.length === 0 ? undefined : `[${pairs(set).map(range).join('')}]`;
  if (high.join() !== NOT_ASCII.join()) return undefined;
  const excluded = intersection(complement(set), ASCII);
  return excluded.length === 0 ? undefined : `[^${pairs(excluded).map(range).join('')}]`;
}

/** The ways to write a set of characters, each with one beginning. */
function alternativesOf(set: CodePointSet, whole: Expression): readonly Alternative[] {
  const [first, last] = set;
  if (set.length === 2 && first === last && first! < 0x80) return [[bytePart(first!)]];
  if (classOf(set) !== undefined) return [[whole]];
  const high = intersection(set, NOT_ASCII);
  const ascii = intersection(set, ASCII);
  if (high.join() === NOT_ASCII.join()) {
    const rest = complement([0, 0]);
    return [[{ kind: 'characters', set: rest }], [bytePart(0)]];
  }
  const low: Alternative[] = ascii.length === 0 ? [] : [[{ kind: 'characters', set: ascii }]];
  return [...low, ...utf8Sequences(high).map((ranges) => ranges.map(partOf))];
}

const range = ([first, last]: readonly [number, number]) =>
  first === last ? escaped(first) : `${escaped(first)}-${escaped(last)}`;

/** One byte is written twice: the library takes a class of a single member for a text, and would encode it again. */
const byteClass = ([first, last]: readonly [number, number]) =>
  first === last ? `[${escaped(first)}${escaped(first)}]` : `[${range([first, last])}]`;

function quantifier(min: number, max: number): string {
  if (max === Number.POSITIVE_INFINITY) return min === 0 ? '*' : min === 1 ? '+' : `{${min},}`;
  return min === 0 && max === 1 ? '?' : min === max ? `{${min}}` : `{${min},${max}}`;
}

/** Letters, digits and harmless marks as themselves, all else by number; \x would swallow the hexadecimal digits after it. */
function escaped(codePoint: number): string {
  const character = String.fromCodePoint(codePoint);
  if (codePoint < 0x7f && /[A-Za-z0-9 _.,:;<>=@!#%&+*/(){}|~?$']/.test(character)) return character;
  const hex = codePoint.toString(16);
  return codePoint < 0x10000 ? `\\u${hex.padStart(4, '0')}` : `\\U${hex.padStart(8, '0')}`;
}

/** Inside of quotation marks. */
function quoted(character: string): string {
  return character === '"' || character === '\\' ? `\\${character}` : escaped(character.codePointAt(0)!);
}
