interface PlotProps {
  readonly title: string;
  readonly values: readonly number[];
  /** The last value as text. */
  readonly latest: string;
  /** Value at the top; default: the largest. */
  readonly most?: number | undefined;
}

const WIDTH = 240;
const HEIGHT = 56;

/** A line of the last minutes. */
export function Plot({ title, values, latest, most }: PlotProps) {
  const top = most ?? Math.max(1, ...values);
  const step = WIDTH / Math.max(1, values.length - 1);
  const points = values.map((value, i) => `${(i * step).toFixed(1)},${(HEIGHT - (HEIGHT * value) / top).toFixed(1)}`);
  return (
    <figure class="plot">
      <figcaption>
        {title} <strong>{latest}</strong>
      </figcaption>
      <svg
        viewBox={`0 -1 ${WIDTH} ${HEIGHT + 2}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${title}: ${latest}`}
      >
        <polyline points={points.join(' ')} />
      </svg>
    </figure>
  );
}
