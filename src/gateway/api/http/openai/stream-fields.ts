import type { Fields } from '../fields.js';

/** Whether an answer is streamed, and what its stream ends with. */
export function streamOf(fields: Fields): { readonly isStream: boolean; readonly includeUsage: boolean } {
  const isStream = fields.boolean('stream') ?? false;
  const options = fields.object('stream_options');
  const includeUsage = options?.boolean('include_usage') ?? false;
  // Padding against those who look at lengths on the way: it is off where nobody asked for it.
  options?.mustBe('include_obfuscation', false);
  options?.mustBe('continuous_usage_stats', false);
  options?.end();
  if (options !== undefined && !isStream) fields.refuse('stream_options', 'is there without stream');
  return { isStream, includeUsage };
}
