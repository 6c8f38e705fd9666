import { normedAfterRope } from './hunyuan-dense.js';

/** maincoder: hunyuan-dense with interleaved RoPE. Maincoder 1B. */
export const maincoder = normedAfterRope('maincoder', 'interleaved');
