/** Which answer's mask a thread works out, for who watches it from another thread while it cannot say so itself. */
export class MaskProgress {
  /** What two threads share: the answer's id, 0 where none is worked on, and how many masks were begun. */
  static readonly BYTES = 8;
  private readonly shared: Int32Array;

  constructor(buffer: SharedArrayBuffer) {
    this.shared = new Int32Array(buffer);
  }

  begin(id: number): void {
    Atomics.store(this.shared, 0, id);
    Atomics.add(this.shared, 1, 1);
  }

  end(): void {
    Atomics.store(this.shared, 0, 0);
  }

  /** The answer that is worked on, undefined for none, and how many masks were begun. */
  get now(): { readonly id: number | undefined; readonly begun: number } {
    const id = Atomics.load(this.shared, 0);
    return { id: id === 0 ? undefined : id, begun: Atomics.load(this.shared, 1) };
  }
}
