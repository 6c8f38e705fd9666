import type { Family } from './family.js';
import { qwen2 } from './qwen2.js';

/**
 * qwen2moe: qwen2 with experts for MLPs, their weights as the softmax over all gives them, and one expert more for every row,
 * times the sigmoid of a gate of its own. Qwen1.5-MoE and Qwen2-57B-A14B.
 */
export const qwen2moe: Family = { name: 'qwen2moe', build: qwen2.build };
