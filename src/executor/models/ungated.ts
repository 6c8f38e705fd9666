import type { Linear, Residual, Value } from '../model/values.js';
import type { Layers } from './family.js';

/**
 * The block's MLP of `ffn_up` and `ffn_down` without a gate, whose activation is the square of what is above 0; So et al. (2021).
 *
 * @param suffix of the tensors' names
 */
export function reluSquaredMlp(
  l: Layers,
  name: string,
  of: Residual | Value,
  {
    hiddenSize,
    ffnSize,
    suffix = '',
  }: { readonly hiddenSize: number; readonly ffnSize: number; readonly suffix?: string },
): Linear {
  const up = l.project([[`${name}.ffn_up${suffix}`, ffnSize]], hiddenSize, of);
  return l.project([[`${name}.ffn_down${suffix}`, hiddenSize]], ffnSize, { kind: 'activated', of: up });
}
