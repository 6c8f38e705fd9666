import type { ArchitectureKeys } from './architecture-keys.js';

/** alphaP · x² + beta · x above 0, and alphaN · (e^min(x, eps) - 1 - x) + beta · x below; Huang & Schlag (2024). */
export interface Xielu {
  readonly alphaN: number;
  readonly alphaP: number;
  readonly beta: number;
  readonly eps: number;
}

/**
 * The activation of each layer. A file has what softplus makes alphas of.
 *
 * @throws GgufError `GGUF_INVALID` for numbers that are missing, or of another count than layers
 */
export function readXielus(keys: ArchitectureKeys, layers: number): readonly Xielu[] {
  const softplus = (value: number): number => (value > 20 ? value : Math.log1p(Math.exp(value)));
  const [alphaN, alphaP, beta, eps] = (['alpha_n', 'alpha_p', 'beta', 'eps'] as const).map((name) =>
    keys.fileLayerNumbers(`xielu.${name}`, layers),
  ) as [readonly number[], readonly number[], readonly number[], readonly number[]];
  return beta.map((own, layer) => ({
    alphaN: own + softplus(alphaN[layer] as number),
    alphaP: softplus(alphaP[layer] as number),
    beta: own,
    eps: eps[layer] as number,
  }));
}
