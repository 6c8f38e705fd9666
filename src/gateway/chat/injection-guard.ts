import { strip } from '../../lib/jinja/text.js';
import { Dict, Sequence, type Value } from '../../lib/jinja/values.js';
import { RocmForgeError } from '../../shared/errors.js';

/** A rendered conversation, ready for `Tokenizer.encodePrompt(text, { parseSpecial: true, breaks, addSpecial: true })`. */
export interface ChatPrompt {
  readonly text: string;
  /**
   * Ascending UTF-16 offsets where a user's text touches or contains the name of a token: no control token may span one,
   * so that what a user wrote stays text, while white space and words still merge across the borders of a turn.
   */
  readonly breaks: readonly number[];
}

interface TrieNode {
  readonly next: Map<number, TrieNode>;
  isEnd: boolean;
}

/** Marks that {@link InjectionGuard.mark} puts around and into strings. */
export interface MarkOptions {
  /** True if the ends of every string are marked too, not only the names of tokens inside. */
  readonly borders: boolean;
}

/**
 * Keeps track of a user's text through a template.
 *
 * A template returns one flat string in which `<|im_end|>` of its own and `<|im_end|>` of a user look alike. So before it
 * runs, a sentinel (a private-use character that occurs nowhere in the input) goes behind the first character of every
 * token name in the user's strings, in any spelling of its case. Whatever the template then does with the string (trim,
 * slice, split, tojson, lower), a name is never whole. Afterwards the sentinels are taken out again and their places kept.
 */
export class InjectionGuard {
  private readonly root: TrieNode = { next: new Map(), isEnd: false };

  /** @param markers names of the tokens that only a template may write */
  constructor(markers: readonly string[]) {
    for (const marker of markers) {
      let node = this.root;
      for (let i = 0; i < marker.length; i++) {
        const unit = fold(marker.charCodeAt(i));
        let child = node.next.get(unit);
        if (child === undefined) {
          child = { next: new Map(), isEnd: false };
          node.next.set(unit, child);
        }
        node = child;
      }
      node.isEnd = true;
    }
  }

  /**
   * A character that occurs in none of the texts, neither as itself nor as a JSON escape.
   *
   * @throws RocmForgeError `INVALID_FIELD` when a text uses up all 6,400 private-use characters
   */
  chooseSentinel(texts: Iterable<string>): string {
    const used = new Set<number>();
    for (const text of texts) {
      for (const [character, hex] of text.matchAll(/[\uE000-\uF8FF]|\\u([\da-f]{4})/gi)) {
        used.add(hex === undefined ? character.charCodeAt(0) : Number.parseInt(hex, 16));
      }
    }
    for (let unit = 0xe000; unit <= 0xf8ff; unit++) if (!used.has(unit)) return String.fromCharCode(unit);
    throw new RocmForgeError('INVALID_FIELD', 'the conversation uses every private-use character of Unicode', {
      field: 'chat.messages',
    });
  }

  /** The value with sentinels in all of its strings, keys included. */
  mark(value: Value, sentinel: string, options: MarkOptions): Value {
    if (typeof value === 'string') return this.markText(value, sentinel, options);
    if (value instanceof Sequence) {
      return new Sequence(
        value.kind,
        value.items.map((item) => this.mark(item, sentinel, options)),
      );
    }
    if (!(value instanceof Dict)) return value;
    return Dict.of(
      // Templates look keys up by name, so only what could become a token is broken there.
      value
        .entries()
        .map(([key, item]) => [this.mark(key, sentinel, { borders: false }), this.mark(item, sentinel, options)]),
    );
  }

  /** Removes the sentinels, in plain and in JSON-escaped form, and notes where they were. */
  unmark(rendered: string, sentinel: string): ChatPrompt {
    const escaped = `\\\\u${sentinel.charCodeAt(0).toString(16)}`;
    const breaks: number[] = [];
    let text = '';
    let end = 0;
    for (const match of rendered.matchAll(new RegExp(`${sentinel}|${escaped}`, 'gi'))) {
      text += rendered.slice(end, match.index);
      end = match.index + match[0].length;
      if (breaks.at(-1) !== text.length) breaks.push(text.length);
    }
    return { text: text + rendered.slice(end), breaks };
  }

  private markText(text: string, sentinel: string, options: MarkOptions): string {
    let marked = '';
    let end = 0;
    const cut = (at: number) => {
      marked += text.slice(end, at) + sentinel;
      end = at;
    };
    // Inside of the white space at the ends, which templates trim.
    const last = options.borders ? strip(text, 'right').length : 0;
    if (last > 0) cut(text.length - strip(text, 'left').length);
    for (let i = 0; i < text.length; i++) if (this.startsMarker(text, i)) cut(i + (isPair(text, i) ? 2 : 1));
    if (last > end) cut(last);
    return marked + text.slice(end);
  }

  /** True if a token name stands at `start`, or the text ends inside of one that what follows could complete. */
  private startsMarker(text: string, start: number): boolean {
    let node = this.root.next.get(fold(text.charCodeAt(start)));
    for (let i = start + 1; node !== undefined; i++) {
      if (node.isEnd || i === text.length) return true;
      node = node.next.get(fold(text.charCodeAt(i)));
    }
    return false;
  }
}

function isPair(text: string, at: number): boolean {
  return text.codePointAt(at)! > 0xffff;
}

/** The unit without its case, so that a template's `upper` or `lower` cannot complete a name. */
function fold(unit: number): number {
  if (unit < 0x80) return unit >= 0x41 && unit <= 0x5a ? unit + 0x20 : unit;
  const folded = String.fromCharCode(unit).toUpperCase().toLowerCase();
  return folded.length === 1 ? folded.charCodeAt(0) : unit;
}
