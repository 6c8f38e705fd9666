import { Transform, type TransformCallback } from 'node:stream';
import type { ReadStream } from 'node:tty';

/** Stands for a line's end inside a message while it is typed: an editor of one line has no place for the end itself. */
const LINE_BREAK = '↵';
const ESCAPE = '\x1b';
const PASTE_BEGINS = `${ESCAPE}[200~`;
const PASTE_ENDS = `${ESCAPE}[201~`;
const PASTE_MARKS = new RegExp(`(${ESCAPE}\\[20[01]~)`);
/** Escape alone is a key, and so is the beginning of an arrow's; only what can be nothing else waits. */
const PASTE_MARK_BEGUN = new RegExp(`${ESCAPE}\\[20?[01]?$`);
/** Terminals then tell what is pasted from what is typed. */
export const PASTE_ON = '\x1b[?2004h';
export const PASTE_OFF = '\x1b[?2004l';

/** A typed line as the message that it stands for. */
export const messageOf = (line: string): string => line.replaceAll(LINE_BREAK, '\n');

/**
 * A terminal's keys for an editor of one line: lines of what is pasted stay together, and Alt-Enter and Ctrl-J end a line
 * without sending it.
 */
export class Keys extends Transform {
  readonly isTTY = true;
  private isPasting = false;
  /** The beginning of a sequence whose rest has not come. */
  private held = '';

  constructor(private readonly terminal: ReadStream) {
    super({ decodeStrings: true, encoding: 'utf8' });
    terminal.setEncoding('utf8');
    terminal.pipe(this);
  }

  setRawMode(isRaw: boolean): this {
    this.terminal.setRawMode(isRaw);
    return this;
  }

  override _transform(bytes: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    const text = this.held + bytes.toString('utf8');
    const cut = PASTE_MARK_BEGUN.exec(text);
    this.held = cut?.[0] ?? '';
    const parts = text.slice(0, text.length - this.held.length).split(PASTE_MARKS);
    done(null, parts.map((part) => this.typed(part)).join(''));
  }

  private typed(part: string): string {
    if (part === PASTE_BEGINS || part === PASTE_ENDS) {
      this.isPasting = part === PASTE_BEGINS;
      return '';
    }
    // Pasted text controls nothing: of its control characters only ends of lines are left, and tabs as a space.
    if (this.isPasting) {
      return part
        .replaceAll(/\r\n?|\n/g, LINE_BREAK)
        .replaceAll('\t', ' ')
        .replaceAll(/\p{Cc}/gu, '');
    }
    return part.replaceAll('\x1b\r', LINE_BREAK).replaceAll('\n', LINE_BREAK);
  }
}
