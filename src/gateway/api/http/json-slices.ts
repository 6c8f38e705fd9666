/** A list whose items are made when it is written: of large answers not all are there at once. */
export class Listed {
  constructor(
    readonly length: number,
    readonly item: (index: number) => unknown,
  ) {}

  toJSON(): unknown {
    return Array.from({ length: this.length }, (_, i) => this.item(i));
  }
}

/** A value that is written as this JSON: numbers in it may be more than JavaScript's hold. */
export class JsonText {
  constructor(readonly text: string) {}

  /** Nothing but this file writes it. @throws Error always */
  toJSON(): never {
    throw new Error('JSON text must be written by jsonOf or jsonInSlices');
  }
}

/** JSON of a value, as {@link jsonInSlices} writes it, at once. */
export function jsonOf(value: unknown): string {
  return [...piecesOf(value)].join('');
}

/** Items that are written together. */
const SLICE_ITEMS = 32;
/** Time for which a response is written at once, while all others wait. */
const SLICE_MS = 5;

/** JSON of a value in UTF-8, as `JSON.stringify` has it, written in slices between which others are served. */
export async function jsonInSlices(value: unknown): Promise<Buffer> {
  const written: Buffer[] = [];
  let text = '';
  let begun = performance.now();
  for (const piece of piecesOf(value)) {
    text += piece;
    if (performance.now() - begun < SLICE_MS) continue;
    written.push(Buffer.from(text));
    text = '';
    await new Promise((resolve) => setImmediate(resolve));
    begun = performance.now();
  }
  written.push(Buffer.from(text));
  return written.length === 1 ? (written[0] as Buffer) : Buffer.concat(written);
}

function* piecesOf(value: unknown): Generator<string> {
  if (value instanceof JsonText) yield value.text;
  else if (value instanceof Listed) yield* listPieces(value);
  else if (typeof value !== 'object' || value === null) yield JSON.stringify(value) ?? 'null';
  else if (Array.isArray(value)) yield* arrayPieces(value);
  else {
    let separator = '{';
    for (const [name, item] of Object.entries(value)) {
      if (item === undefined) continue;
      yield `${separator}${JSON.stringify(name)}:`;
      yield* piecesOf(item);
      separator = ',';
    }
    yield separator === '{' ? '{}' : '}';
  }
}

function* arrayPieces(items: readonly unknown[]): Generator<string> {
  if (typeof items[0] !== 'object') {
    yield JSON.stringify(items);
    return;
  }
  let separator = '[';
  for (const item of items) {
    yield separator;
    yield* piecesOf(item);
    separator = ',';
  }
  yield ']';
}

function* listPieces({ length, item }: Listed): Generator<string> {
  if (length === 0) yield '[';
  for (let from = 0; from < length; from += SLICE_ITEMS) {
    const slice = Array.from({ length: Math.min(SLICE_ITEMS, length - from) }, (_, i) => item(from + i));
    yield `${from === 0 ? '[' : ','}${JSON.stringify(slice).slice(1, -1)}`;
  }
  yield ']';
}
