import { normedAfterRope } from './hunyuan-dense.js';

/** maincoder: hunyuan-dense with RoPE over adjacent elements. Maincoder 1B. */
export const maincoder = normedAfterRope('maincoder', 'adjacent');
