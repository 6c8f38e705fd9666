/** alpha_p · y² + beta · y above 0, alpha_n · (e^min(y, eps) - 1 - y) + beta · y below. */
export const xielu = (y: ArrayLike<number>, alphaN: number, alphaP: number, beta: number, eps: number): Float64Array =>
  Float64Array.from(y, (value) =>
    value > 0
      ? alphaP * value * value + beta * value
      : alphaN * (Math.expm1(Math.min(value, eps)) - value) + beta * value,
  );
