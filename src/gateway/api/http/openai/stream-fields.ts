import type { Fields } from '../fields.js';

/** Streaming mode of an answer, and the end of its stream. */
export function streamOf(fields: Fields): {
  readonly isStream: boolean;
  readonly includeUsage: boolean;
  /** True if each event of the stream has the counts so far. */
  readonly continuousUsage: boolean;
} {
  const isStream = fields.boolean('stream') ?? false;
  const options = fields.object('stream_options');
  const includeUsage = options?.boolean('include_usage') ?? false;
  // Padding against those who look at lengths on the way: it is off where nobody asked for it.
  options?.reportUnless('include_obfuscation', false);
  const continuousUsage = includeUsage && (options?.boolean('continuous_usage_stats') ?? false);
  options?.ignore('continuous_usage_stats');
  options?.end();
  if (options !== undefined && !isStream) fields.refuse('stream_options', 'requires stream: true');
  return { isStream, includeUsage, continuousUsage };
}
