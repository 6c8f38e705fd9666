/** Stands in Markdown for a place where an executor was lost: a character that Unicode reserves and no text has. */
export const MARK = '\uFDD0';

/** Invisible characters that reorder or hide the text around them, and the mark. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are made visible
const SPECIAL = /(\uFDD0|[\u0000-\u0008\u000B\u000C\u000E-\u001F\u007F\u202A-\u202E\u2066-\u2069])/;

/** Markup at the beginning of a line; behind it a mark would turn the line into plain text. */
const BLOCK_MARKUP = /\n[ \t>]*([*+-]|\d+[.)]?|#{1,6})?[ \t]*$/;
/** Inline markup, within which a mark would break it. */
const INLINE_MARKUP = /[*_`~[\]()!|<>\\:]+$/;

/**
 * Markdown with marks in it. A mark that would stand within markup is placed before it.
 *
 * @param offsets ascending, in UTF-16 units
 */
export function withMarks(text: string, offsets: readonly number[]): string {
  const clean = text.replaceAll(MARK, '\uFFFD');
  let marked = '';
  let from = 0;
  for (const offset of offsets) {
    const at = Math.max(from, placeOf(clean.slice(0, offset)));
    marked += clean.slice(from, at) + MARK;
    from = at;
  }
  return marked + clean.slice(from);
}

function placeOf(before: string): number {
  const tail = `\n${before}`.slice(-200);
  const markup = BLOCK_MARKUP.exec(tail)?.[0] ?? INLINE_MARKUP.exec(tail)?.[0] ?? '';
  const place = Math.max(0, before.length - markup.length);
  // Within a pair of surrogates there is no place.
  return /[\uD800-\uDBFF]$/.test(before.slice(0, place)) ? place - 1 : place;
}

/** Number of marks in a text. */
export const marksIn = (text: string): number => text.split(MARK).length - 1;

export const withoutMarks = (text: string): string => text.replaceAll(MARK, '');

/** A part of a text as it is shown. */
export type TextPart =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'mark' }
  /** A control character, by its name: shown, because it would change how other text is read. */
  | { readonly kind: 'control'; readonly text: string };

/** The parts of a text. */
export function partsOf(text: string): readonly TextPart[] {
  if (!SPECIAL.test(text)) return [{ kind: 'text', text }];
  return text
    .split(SPECIAL)
    .filter((part) => part !== '')
    .map((part): TextPart => {
      if (part === MARK) return { kind: 'mark' };
      if (!SPECIAL.test(part)) return { kind: 'text', text: part };
      return { kind: 'control', text: `U+${part.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}` };
    });
}
