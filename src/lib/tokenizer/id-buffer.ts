/** Takes token ids in their order. */
export interface IdSink {
  push(id: number): void;
  append(ids: Int32Array): void;
}

/** A growing list of token ids. */
export class IdBuffer implements IdSink {
  private ids: Int32Array;
  length = 0;

  constructor(capacity = 64) {
    this.ids = new Int32Array(Math.max(capacity, 16));
  }

  push(id: number): void {
    if (this.length === this.ids.length) this.grow(this.length + 1);
    this.ids[this.length++] = id;
  }

  append(ids: Int32Array): void {
    if (this.length + ids.length > this.ids.length) this.grow(this.length + ids.length);
    this.ids.set(ids, this.length);
    this.length += ids.length;
  }

  /** The id at an index, from the end when negative. */
  at(index: number): number | undefined {
    const position = index < 0 ? this.length + index : index;
    return position >= 0 && position < this.length ? this.ids[position] : undefined;
  }

  /** A copy of the ids from `start` on. */
  slice(start = 0): Int32Array {
    return this.ids.slice(start, this.length);
  }

  private grow(needed: number): void {
    const larger = new Int32Array(Math.max(needed, this.ids.length * 2));
    larger.set(this.ids.subarray(0, this.length));
    this.ids = larger;
  }
}
