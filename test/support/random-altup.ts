/** Writers of a random model's tensors. */
interface Writers {
  readonly matrix: (
    name: string,
    columns: number,
    rows: number,
    scale?: number,
    padded?: number,
    count?: number,
  ) => void;
  readonly vector: (name: string, length: number, mean: number, count?: number) => void;
  readonly norm: (name: string) => void;
}

const STREAMS = 4;
/** llama.cpp takes no other. */
const LAUREL_RANK = 64;

/** A block's tensors of AltUp and LAuReL. */
export function altupBlock({ matrix, vector, norm }: Writers, block: string, hidden: number): void {
  // Scores are divided by the width; larger shares would multiply roundings from layer to layer.
  matrix(`${block}.altup_router.weight`, hidden, STREAMS, Math.sqrt(hidden) / 2);
  norm(`${block}.altup_router_norm.weight`);
  vector(`${block}.altup_predict_coef.weight`, STREAMS, 0, STREAMS * STREAMS);
  vector(`${block}.altup_correct_coef.weight`, STREAMS, 0, STREAMS);
  vector(`${block}.altup_correct_scale.weight`, hidden, 1);
  matrix(`${block}.laurel_l.weight`, hidden, LAUREL_RANK);
  matrix(`${block}.laurel_r.weight`, LAUREL_RANK, hidden);
  norm(`${block}.laurel_post_norm.weight`);
}

/** Matrices between the residual stream and the streams beside it. */
export function altupEnds({ matrix }: Pick<Writers, 'matrix'>, hidden: number): void {
  for (const name of ['altup_proj', 'altup_unembd_proj'])
    matrix(`${name}.weight`, hidden, hidden, undefined, 0, STREAMS - 1);
}
