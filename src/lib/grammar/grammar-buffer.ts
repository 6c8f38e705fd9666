import type { Expression, GrammarRules } from './grammar.js';

/**
 * In a grammar a special token is its name between two of this byte: one name may begin with another. UTF-8 has no such byte, so
 * no text, and no character that a grammar allows, is ever a special token; tokens of text that hold the byte are kept out of the
 * vocabulary that grammars are run over.
 */
export const SPECIAL_TOKEN_BYTE = 0xff;

/** Tags of parts; `native/constraints/grammar.cc` reads them. */
const TAGS = { text: 0, characters: 1, rule: 2, sequence: 3, choice: 4, repeat: 5 } as const;

/**
 * Rules as the mask engine reads them: the number of rules, then the content of each, the one where texts begin first. A part is a tag
 * and what belongs to it: the length and the UTF-8 of a text; the length of a set and its code points, each as the distance from the
 * one before; the number of a rule; how many parts follow; least and most repetitions, the most plus one, and 0 for no limit. All
 * numbers are LEB128.
 */
export function grammarBuffer(rules: GrammarRules): Uint8Array {
  const numbers = new Map([...rules.keys()].map((name, index) => [name, index]));
  const writer = new Writer();
  writer.number(rules.size);
  for (const content of rules.values()) write(content, numbers, writer);
  return writer.taken();
}

function write(expression: Expression, numbers: ReadonlyMap<string, number>, to: Writer): void {
  switch (expression.kind) {
    case 'text':
      to.number(TAGS.text);
      to.text(expression.text);
      break;
    case 'special': {
      const mark = Uint8Array.of(SPECIAL_TOKEN_BYTE);
      to.number(TAGS.text);
      to.bytes(Buffer.concat([mark, Buffer.from(expression.name), mark]));
      break;
    }
    case 'characters': {
      to.number(TAGS.characters);
      to.number(expression.set.length);
      let before = 0;
      for (const codePoint of expression.set) {
        to.number(codePoint - before);
        before = codePoint;
      }
      break;
    }
    case 'rule':
      to.number(TAGS.rule);
      to.number(numbers.get(expression.name) as number);
      break;
    case 'sequence':
    case 'choice': {
      const parts = expression.kind === 'sequence' ? expression.parts : expression.options;
      to.number(TAGS[expression.kind]);
      to.number(parts.length);
      for (const part of parts) write(part, numbers, to);
      break;
    }
    case 'repeat':
      to.number(TAGS.repeat);
      to.number(expression.min);
      to.number(Number.isFinite(expression.max) ? expression.max + 1 : 0);
      write(expression.what, numbers, to);
      break;
  }
}

/** Bytes that grow. */
class Writer {
  private buffer = new Uint8Array(1024);
  private length = 0;

  number(value: number): void {
    this.reserve(5);
    let rest = value;
    for (; rest >= 0x80; rest >>>= 7) this.buffer[this.length++] = (rest & 0x7f) | 0x80;
    this.buffer[this.length++] = rest;
  }

  /** As {@link Writer.bytes} its UTF-8. */
  text(value: string): void {
    this.reserve(5 + value.length);
    const before = this.length;
    this.number(value.length);
    for (let i = 0; i < value.length; i++) {
      const unit = value.charCodeAt(i);
      if (unit >= 0x80) {
        this.length = before;
        this.bytes(Buffer.from(value));
        return;
      }
      this.buffer[this.length++] = unit;
    }
  }

  bytes(value: Uint8Array): void {
    this.number(value.length);
    this.reserve(value.length);
    this.buffer.set(value, this.length);
    this.length += value.length;
  }

  taken(): Uint8Array {
    return this.buffer.slice(0, this.length);
  }

  private reserve(bytes: number): void {
    if (this.length + bytes <= this.buffer.length) return;
    const larger = new Uint8Array(Math.max(2 * this.buffer.length, this.length + bytes));
    larger.set(this.buffer.subarray(0, this.length));
    this.buffer = larger;
  }
}
