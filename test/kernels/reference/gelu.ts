import { gelu as geluOf } from './geglu.js';

/** gelu(y), in its form with tanh. */
export const gelu = (y: ArrayLike<number>): Float64Array => Float64Array.from(y, geluOf);
