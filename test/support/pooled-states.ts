import type { Pooling } from '../../src/gateway/request/pooling.js';
import { TokenStates } from '../../src/gateway/request/token-states.js';
import { MeanState } from './mean-state.js';

/** Hidden states of a prompt's tokens on their way to an embedding. */
export interface PooledStates {
  /**
   * Adds the states of the tokens that follow.
   *
   * @param states `[count, size]`
   * @returns what they are pooled to, `[size]`, or `[tokens, size]` where they are not; undefined if more are to come
   */
  add(states: Float32Array): Float32Array | undefined;
}

/** @param tokens number of them @param size elements of a hidden state */
export function pooledStates(pooling: Pooling, tokens: number, size: number): PooledStates {
  if (pooling === 'none') return new TokenStates(tokens, size);
  if (pooling === 'mean') return new MeanState(tokens, size);
  return new StateAt(pooling === 'cls' ? 0 : tokens - 1, tokens, size);
}

/** The hidden state of one token. */
class StateAt implements PooledStates {
  private added = 0;
  private state: Float32Array | undefined;

  constructor(
    private readonly position: number,
    private readonly tokens: number,
    private readonly size: number,
  ) {}

  add(states: Float32Array): Float32Array | undefined {
    const { position, added, size } = this;
    const count = states.length / size;
    if (position >= added && position < added + count)
      this.state = states.slice((position - added) * size, (position - added + 1) * size);
    this.added += count;
    return this.added === this.tokens ? this.state : undefined;
  }
}
