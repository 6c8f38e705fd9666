import type { ResponseEvent } from './events.js';

/**
 * Writes the events of a turn. White space between markup and text is markup: it is dropped at both ends of the reasoning,
 * around calls and before what follows them. Where content goes on after a call, what stood before the call stays.
 */
export class TurnWriter {
  private events: ResponseEvent[] = [];
  private readonly content = new TrimmedText(true);
  private readonly reasoning = new TrimmedText(false);
  private calls = 0;
  private ended = 0;
  private hasArguments = false;

  /**
   * @param newId     makes the id of a call that the model gave none
   * @param mostCalls behind so many whole calls nothing more is written
   */
  constructor(
    private readonly newId: () => string,
    private readonly mostCalls: number,
  ) {}

  /** True if as many calls are whole as may come. */
  get isOver(): boolean {
    return this.ended >= this.mostCalls;
  }

  /** True if there are calls, all of them whole. */
  get hasWholeCalls(): boolean {
    return this.calls > 0 && this.ended === this.calls;
  }

  /** Takes what was written since the last time. */
  take(): readonly ResponseEvent[] {
    const { events } = this;
    this.events = [];
    return events;
  }

  writeContent(text: string): void {
    const certain = this.content.push(text);
    if (certain !== '') this.write({ kind: 'content', text: certain });
  }

  writeReasoning(text: string): void {
    const certain = this.reasoning.push(text);
    if (certain !== '') this.write({ kind: 'reasoning', text: certain });
  }

  /** Markup stands here, such as a tag. @param separator parts content that goes on, where no white space does */
  markup(separator = ''): void {
    this.content.markup(separator);
    this.reasoning.markup(separator);
  }

  /** A call begins. */
  beginCall(name: string, id: string | undefined): void {
    if (this.isOver) return;
    this.markup();
    this.write({ kind: 'call', index: this.calls, id: id || this.newId(), name });
    this.calls += 1;
    this.hasArguments = false;
  }

  /** Arguments of the call that was begun last. */
  writeArguments(text: string): void {
    this.hasArguments = true;
    this.write({ kind: 'arguments', index: this.calls - 1, text });
  }

  /** The arguments are whole. A call without any has those of an empty object. */
  endCall(): void {
    if (this.isOver) return;
    if (!this.hasArguments) this.writeArguments('{}');
    this.write({ kind: 'call_end', index: this.calls - 1 });
    this.ended += 1;
  }

  /** The text has ended. */
  finish(): void {
    const rest = this.content.finish();
    if (rest !== '') this.write({ kind: 'content', text: rest });
  }

  private write(event: ResponseEvent): void {
    if (!this.isOver) this.events.push(event);
  }
}

/** A text in pieces, without the white space that touches markup. */
class TrimmedText {
  private space = '';
  private hasText = false;

  /** @param keepsStart whether white space at the text's start is part of it, no markup being there */
  constructor(private keepsStart: boolean) {}

  /** @returns what is certain */
  push(text: string): string {
    const end = trimmedEnd(text);
    if (end === 0) {
      if (this.keepsStart) this.space += text;
      return '';
    }
    const begin = this.keepsStart ? 0 : text.length - text.replace(/^[ \t\r\n]+/, '').length;
    const certain = this.space + text.slice(begin, end);
    this.space = text.slice(end);
    this.keepsStart = true;
    this.hasText = true;
    return certain;
  }

  markup(separator: string): void {
    if (!this.hasText) this.space = '';
    else if (this.space === '') this.space = separator;
    this.keepsStart = false;
  }

  finish(): string {
    return this.keepsStart ? this.space : '';
  }
}

function trimmedEnd(text: string): number {
  let end = text.length;
  while (end > 0 && ' \t\r\n'.includes(text[end - 1] as string)) end -= 1;
  return end;
}
