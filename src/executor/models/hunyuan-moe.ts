import { normedAfterRope } from './hunyuan-dense.js';

/** hunyuan-moe: hunyuan-dense with experts for MLPs, and a shared one. Hunyuan A13B. */
export const hunyuanMoe = normedAfterRope('hunyuan-moe', 'neox');
