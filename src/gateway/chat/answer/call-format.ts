import type { OfferedTool } from './events.js';
import type { Reading, TextReader, TextSink } from './text-reader.js';
import type { TurnWriter } from './turn-writer.js';
import { ParameterTypes } from './typed-value.js';

/** Reader of a format. */
export class CallReading {
  private readonly types = new Map<string, ParameterTypes>();
  /** Takes text that is part of no call. */
  writeText: TextSink;

  constructor(
    readonly reader: TextReader,
    readonly turn: TurnWriter,
    readonly tools: readonly OfferedTool[],
  ) {
    this.writeText = (text) => turn.writeContent(text);
  }

  /** The types of a function's parameters; of one that nobody offered, of none. A schema is read once a turn. */
  parameterTypes(name: string): ParameterTypes {
    const tool = this.tools.find((offered) => offered.name === name);
    const key = tool === undefined ? '' : name;
    const types = this.types.get(key) ?? new ParameterTypes(tool);
    this.types.set(key, types);
    return types;
  }

  /** A call begins: what was held is its markup. */
  begin(name: string, id?: string | undefined): void {
    this.reader.release();
    this.writeText = (text) => this.turn.writeContent(text);
    this.turn.beginCall(name, id);
  }

  /**
   * Reads what may be a call. Where none begins, what was read is content, up to where it was no call any more: nothing is
   * read twice, so the work is linear in the text. Of a text that was cut what may have become a call is markup.
   *
   * @param isMarkup whether what may have become a call is markup; default: yes
   * @returns whether a call has begun
   */
  *attempt(read: () => Reading<void>, isMarkup: (held: string) => boolean = () => true): Reading<boolean> {
    this.reader.hold();
    yield* read();
    if (!this.reader.isHolding) return true;
    const { isCutHere } = this.reader;
    const held = this.reader.release();
    if (!isCutHere || !isMarkup(held)) this.writeText(held);
    return false;
  }
}

/** Format in which a family of models writes calls into its text. */
export interface CallFormat {
  /** Markup at the beginning of a call, or of a list of them. */
  readonly openers: readonly string[];
  /** Markup that closes a call, or a list of them, and is markup only behind one. */
  readonly closers: readonly string[];
  /** True if an answer that begins with `{` may be a call. */
  readonly isBare?: boolean;
  /** True if the turn begins with a recipient, behind an opener in the prompt, whether functions are offered or not. */
  readonly isAddressed?: boolean;
  /** Names of special tokens that mean something to it, beside openers and closers. */
  readonly markers?: readonly string[];
  /** Reads what stands behind an opener, or a bare call or recipient: calls {@link CallReading.begin}, or gives up. */
  read(reading: CallReading, opener: string | undefined): Reading<void>;
}

/** Markup of reasoning in a family of models: at the start of the turn, if the prompt has not begun it already. */
export interface ReasoningFormat {
  readonly begin: string;
  readonly end: string;
  /** Names of special tokens that are part of these. */
  readonly markers?: readonly string[];
  /** Tags around the content behind it; absent: none. */
  readonly answer?: { readonly begin: string; readonly end: string };
}
