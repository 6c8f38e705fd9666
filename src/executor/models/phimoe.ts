import type { Family } from './family.js';
import { phi3 } from './phi3.js';

/**
 * phimoe: phi3 with experts by their softmax for MLPs, and biases. As in llama.cpp norms do not subtract the mean, and weights of the two
 * chosen add up to 1; the model was trained with LayerNorms and with weights that come near 1 each. Phi-3.5-MoE.
 */
export const phimoe: Family = { name: 'phimoe', build: phi3.build };
