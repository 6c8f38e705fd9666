/** Hidden states of all of a prompt's tokens, one behind the other. */
export class TokenStates {
  private readonly states: Float32Array;
  private filled = 0;

  /** @param tokens number of them @param size elements of a hidden state */
  constructor(tokens: number, size: number) {
    this.states = new Float32Array(tokens * size);
  }

  /**
   * Adds the states of the tokens that follow.
   *
   * @param states `[count, size]`
   * @returns those of all, `[tokens, size]`, if these were the last
   */
  add(states: Float32Array): Float32Array | undefined {
    this.states.set(states, this.filled);
    this.filled += states.length;
    return this.filled === this.states.length ? this.states : undefined;
  }
}
