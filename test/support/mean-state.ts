/**
 * Mean of the hidden states of a prompt's tokens. They are added in double precision and in the order of tokens, so that the result
 * does not depend on the steps that computed them.
 */
export class MeanState {
  private readonly sums: Float64Array;
  private added = 0;

  /** @param tokens number of them @param size elements of a hidden state */
  constructor(
    private readonly tokens: number,
    private readonly size: number,
  ) {
    this.sums = new Float64Array(size);
  }

  /**
   * Adds the states of the tokens that follow.
   *
   * @param states `[count, size]`
   * @returns the mean, if these were the last
   */
  add(states: Float32Array): Float32Array | undefined {
    const { sums, size } = this;
    for (let from = 0; from < states.length; from += size) {
      for (let i = 0; i < size; i++) sums[i] = (sums[i] as number) + (states[from + i] as number);
      this.added += 1;
    }
    return this.added === this.tokens ? Float32Array.from(sums, (total) => total / this.tokens) : undefined;
  }
}
