import { RocmForgeError } from '../../../../shared/errors.js';

/** Form of a response of Ollama's API. */
export interface OllamaForm {
  readonly api: 'chat' | 'generate';
  /** The model as the request names it, which the response repeats. */
  readonly model: string;
  /** Time that the model stays loaded without requests, in ms; infinite: until it is unloaded otherwise; absent: the default. */
  readonly keepAliveMs: number | undefined;
}

const UNIT_MS: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};

/**
 * A time of Ollama's API in ms: seconds, or a duration as Go writes it (`5m`, `1h30m`, `500ms`). Negative ones are infinite.
 *
 * @throws RocmForgeError `INVALID_FIELD`
 */
export function durationMs(value: unknown, field: string): number {
  const ms = typeof value === 'string' ? goDurationMs(value) : typeof value === 'number' ? value * 1000 : Number.NaN;
  if (Number.isNaN(ms)) {
    const given = JSON.stringify(value)?.slice(0, 32);
    const what = `${field} is ${given}; it must be a number of seconds or a duration such as "5m"`;
    throw new RocmForgeError('INVALID_FIELD', what, { field });
  }
  return ms < 0 ? Number.POSITIVE_INFINITY : ms;
}

function goDurationMs(text: string): number {
  // Ollama accepts numbers of seconds as texts, too.
  if (/^[+-]?\d+(\.\d+)?$/.test(text)) return Number(text) * 1000;
  if (!/^[+-]?(\d+(\.\d+)?(ns|us|µs|ms|s|m|h))+$/.test(text)) return Number.NaN;
  let ms = 0;
  for (const [, count, unit] of text.matchAll(/(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)/g)) {
    ms += Number(count) * (UNIT_MS[unit as string] as number);
  }
  return text.startsWith('-') ? -ms : ms;
}
